"""Which generation the kernel is checked against."""

from __future__ import annotations

from neuron_lab.nki.target import current_target, nc_version


def get_nc_version() -> nc_version:
    return current_target().version


def get_nc_sub_version() -> int:
    """Silicon revision; the emulated cores are first revisions."""
    return 0
