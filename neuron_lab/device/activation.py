"""Switching the `neuron` device on and off in this process, and saying which one it is.

It applies the rule of `selection`, never makes one of its own. What it changes: PyTorch's device slot (for the
life of the process), `sys.meta_path`, the `NEURON_LAB_*` variables, and cached answers of imported libraries.
"""

from __future__ import annotations

import os
import threading
import warnings
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from neuron_lab import __version__
from neuron_lab.device import environment
from neuron_lab.device.info import DeviceInfo
from neuron_lab.device.selection import Selection, select
from neuron_lab.device.state import STATE
from neuron_lab.device.topology import Topology, resolve
from neuron_lab.errors import ActivationError, UsageError

_LOCK = threading.RLock()
_NEVER = "not activated; %load_ext neuron_lab or neuron_lab.activate() switches it on"
_SWITCHED_OFF = "deactivated"
_KEY_STAYS = (
    "the device key stays named 'neuron' and its tensors keep working until this process ends; "
    "magics, stand-in package and variables are gone"
)


def activate(
    instance: str | None = None,
    cores: int | None = None,
    lnc: int | None = None,
    mode: str = "auto",
) -> DeviceInfo:
    """Make the `neuron` device usable and return what it is.

    Args:
        instance: The machine to emulate, `"trn2.3xlarge"` when neither this nor `NEURON_LAB_INSTANCE` says
            otherwise. cores: How many of its cores to show; all of them by default. lnc: Physical cores per
            logical core, 1 or 2; 2 by default. mode: "auto" (real hardware if there is any, else emulated;
            `NEURON_LAB_DEVICE` decides if set), "hardware", "emulated" or "off".

    Calling it again with the same answer changes nothing. A different machine is possible until the first
    device tensor exists; after that it needs a fresh process.
    """
    with _LOCK:
        environ = environment.as_the_user_set_it()
        selection = select(mode, environ)
        if selection.kind == "off":
            deactivate()
            STATE.info = DeviceInfo("off", selection.why)
        elif selection.kind == "hardware":
            _refuse_machine_choice(instance, cores, lnc)
            STATE.info = _activate_hardware(selection)
        else:
            STATE.info = _activate_emulated(selection, resolve(instance, cores, lnc, environ))
        return STATE.info


def deactivate() -> None:
    """Remove the stand-in package and the variables. The device key stays for the life of the process."""
    with _LOCK:
        environment.restore()
        if STATE.info is None or STATE.info.kind == "off":
            return
        if STATE.info.kind == "emulated":
            from neuron_lab.device.standin import finder, nki_finder

            finder.remove()
            nki_finder.remove()
            STATE.info = DeviceInfo("off", _SWITCHED_OFF, notes=(_KEY_STAYS,))
        else:
            STATE.info = DeviceInfo("off", _SWITCHED_OFF)
        _make_libraries_ask_again()


def device_info() -> DeviceInfo:
    """Which `neuron` device this process uses, and why. Changes nothing."""
    return STATE.info or DeviceInfo("off", _NEVER)


def _activate_emulated(selection: Selection, topology: Topology) -> DeviceInfo:
    # First of all: in a child process importing torch calls `autoload`, which comes back here. That inner
    # activation must find none of our modules half imported.
    import_module("torch")
    _bring_up(topology)
    from neuron_lab.device import dynamo_interface
    from neuron_lab.device.standin import finder, nki_finder

    finder.install()
    nki_finder.install()
    dynamo_interface.register_when_imported()
    environment.export(_variables("emulated", topology))
    _make_libraries_ask_again()
    return DeviceInfo(
        kind="emulated",
        why=selection.why,
        instance=topology.instance,
        chip=topology.chip,
        lnc=topology.lnc,
        cores=len(topology.cores),
        hbm_per_core_bytes=topology.pool_bytes[0],
        versions=_versions(),
        notes=_notes(),
    )


def _bring_up(topology: Topology) -> None:
    """Load and configure the core, once; name the device, once."""
    from neuron_lab.device import registration

    if STATE.topology == topology:
        return
    if STATE.topology is None:
        registration.check_free()
    from neuron_lab.device.core import load_core

    core = load_core()
    if STATE.topology is not None and core.touched():
        raise ActivationError(
            f"the emulated machine cannot change from {_machine(STATE.topology)} to {_machine(topology)}: "
            "device tensors exist already; restart the kernel (or start a fresh process) and activate first"
        )
    core.configure(list(topology.pool_of_core), list(topology.pool_bytes), topology.label)
    first_time = STATE.topology is None
    STATE.topology = topology
    if first_time:
        _name_device()
    _take_local_rank()


def _name_device() -> None:
    from neuron_lab.device import registration
    from neuron_lab.device.core import load_core
    from neuron_lab.device.op_list import install as install_op_list
    from neuron_lab.device.runtime import devices, neuron

    registration.register(neuron)
    install_op_list()
    load_core().ledger_enable(True)
    os.register_at_fork(after_in_child=devices.mark_forked_child)


def _take_local_rank() -> None:
    """A process of torchrun begins on the core of its local rank: libraries read it before they set it."""
    from neuron_lab.device.core import load_core

    rank, count = os.environ.get("LOCAL_RANK", ""), load_core().device_count()
    if rank.isdigit() and int(rank) < count:
        load_core().set_device(int(rank))
        load_core().set_default_device(int(rank))


def _activate_hardware(selection: Selection) -> DeviceInfo:
    import torch

    properties = torch.neuron.get_device_properties(0)
    lnc = os.environ.get("NEURON_LOGICAL_NC_CONFIG", "")
    environment.export({"NEURON_LAB_DEVICE": "hardware"})
    _make_libraries_ask_again()
    return DeviceInfo(
        kind="hardware",
        why=selection.why,
        chip=str(properties.name),
        lnc=int(lnc) if lnc.isdigit() else 0,
        cores=int(torch.neuron.device_count()),
        hbm_per_core_bytes=int(properties.total_memory) or None,  # the runtime gives 0 when its query fails
        versions=_versions(),
        notes=_notes(),
    )


def _refuse_machine_choice(instance: str | None, cores: int | None, lnc: int | None) -> None:
    for name, value in (("instance", instance), ("cores", cores), ("lnc", lnc)):
        if value is not None:
            raise UsageError(
                f"{name}={value!r} chooses an emulated machine, but this one has real Neuron cores; "
                "leave it out, or add mode='emulated'"
            )


def _variables(kind: str, topology: Topology) -> dict[str, str]:
    return {
        "NEURON_LAB_DEVICE": kind,
        "NEURON_LAB_INSTANCE": topology.instance,
        "NEURON_LAB_CORES": str(topology.machine_cores),
        "NEURON_LAB_LNC": str(topology.lnc),
    }


def _make_libraries_ask_again() -> None:
    from neuron_lab.device import library_caches

    library_caches.forget_answers()


def _notes() -> tuple[str, ...]:
    """What the user must do by hand; said once here, and again by `device_info()`."""
    from neuron_lab.device import library_caches

    notes = tuple(library_caches.frozen_answers())
    for note in notes:
        warnings.warn(note, stacklevel=4)
    return notes


def _versions() -> dict[str, str]:
    found = {"neuron_lab": __version__}
    for name in ("torch", "torch_neuronx", "transformers"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _machine(topology: Topology) -> str:
    return f"{topology.instance} (LNC {topology.lnc}, {len(topology.cores)} cores)"
