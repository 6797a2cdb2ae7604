"""The enumerations of `nki.isa` under the name public kernels import them from."""

from __future__ import annotations

from neuron_lab.nki.enums import dge_mode, engine, matmul_perf_mode, nc_version, oob_mode, reduce_cmd

__all__ = ["dge_mode", "engine", "matmul_perf_mode", "nc_version", "oob_mode", "reduce_cmd"]
