"""What the emulated machine looks like to this process: instance, LNC, cores, and the memory behind each core.

Pure: it reads the chip table and a mapping of environment variables and returns a frozen answer. It knows
nothing of torch and allocates nothing.

LNC (logical NeuronCore configuration) is how many physical cores one logical core joins. Cores that share an
HBM stack share one pool and its limit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from neuron_lab.errors import UsageError, unknown_choice
from neuron_lab.hardware.instances import DEFAULT_INSTANCE
from neuron_lab.hardware.instances import instance as find_instance

MAX_CORES = 128  # PyTorch's device index is an int8: highest index 127


@dataclass(frozen=True, slots=True)
class Topology:
    """`cores[i]` is the machine's core that this process sees as `neuron:i`; `pool_of_core[i]` indexes
    `pool_bytes`.
    """

    instance: str
    family: str  # "trn2", "trn2u": what get_device_properties().name gives
    chip: str
    lnc: int
    machine_cores: int
    cores: tuple[int, ...]
    pool_of_core: tuple[int, ...]
    pool_bytes: tuple[int, ...]

    @property
    def label(self) -> str:
        """How messages of the device name this machine."""
        return f"{self.instance}, LNC {self.lnc}"


def resolve(instance: str | None, cores: int | None, lnc: int | None, environ: Mapping[str, str]) -> Topology:
    """Arguments win over `NEURON_LAB_*`, which win over the Neuron runtime's variables, which win over the
    defaults.
    """
    name = instance or environ.get("NEURON_LAB_INSTANCE", "").strip() or DEFAULT_INSTANCE
    machine = find_instance(name)
    lnc = _lnc(lnc, environ, machine.chip.lnc_choices)
    available = machine.cores(lnc)
    machine_cores = _machine_cores(cores, environ, available, f"{name} at LNC {lnc}")
    visible = _visible(environ, machine_cores)
    stacks = [machine.pool_of_core(core, lnc) for core in visible]
    pools = sorted(set(stacks))
    return Topology(
        instance=name,
        family=name.split(".")[0],
        chip=machine.chip.name,
        lnc=lnc,
        machine_cores=machine_cores,
        cores=visible,
        pool_of_core=tuple(pools.index(stack) for stack in stacks),
        pool_bytes=(machine.hbm_per_core_bytes(lnc),) * len(pools),
    )


def _lnc(lnc: int | None, environ: Mapping[str, str], choices: Sequence[int]) -> int:
    if lnc is not None:
        if isinstance(lnc, bool) or lnc not in choices:
            raise unknown_choice("lnc", lnc, choices)
        return int(lnc)
    for variable in ("NEURON_LAB_LNC", "NEURON_LOGICAL_NC_CONFIG"):
        text = environ.get(variable, "").strip()
        if text:
            if text not in map(str, choices):
                raise unknown_choice(variable, text, choices)
            return int(text)
    return choices[-1]


def _machine_cores(cores: int | None, environ: Mapping[str, str], available: int, machine: str) -> int:
    available = min(available, MAX_CORES)
    what, value = "cores", cores
    if value is None:
        text = environ.get("NEURON_LAB_CORES", "").strip()
        if not text:
            return available
        what, value = "NEURON_LAB_CORES", _integer("NEURON_LAB_CORES", text)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= available:
        raise UsageError(f"{what} {value!r} is not possible; valid: 1 to {available} ({machine})")
    return value


def _visible(environ: Mapping[str, str], machine_cores: int) -> tuple[int, ...]:
    """The Neuron runtime's own selection: a list of cores, else a number of cores (0 = all)."""
    text = environ.get("NEURON_RT_VISIBLE_CORES", "").strip()
    if text:
        return _core_list(text, machine_cores)
    text = environ.get("NEURON_RT_NUM_CORES", "").strip()
    count = _integer("NEURON_RT_NUM_CORES", text) if text else 0
    if not 0 <= count <= machine_cores:
        raise UsageError(f"NEURON_RT_NUM_CORES {count} is not possible; valid: 0 (all) to {machine_cores}")
    return tuple(range(count or machine_cores))


def _core_list(text: str, machine_cores: int) -> tuple[int, ...]:
    """`3`, `0-3` or `0,2,5-7`."""
    chosen: list[int] = []
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        low = _integer("NEURON_RT_VISIBLE_CORES", first)
        high = _integer("NEURON_RT_VISIBLE_CORES", last) if last else low
        if not 0 <= low <= high < machine_cores:
            raise UsageError(
                f"NEURON_RT_VISIBLE_CORES {text!r} names core {part.strip()}; valid: 0 to {machine_cores - 1}"
            )
        chosen.extend(range(low, high + 1))
    return tuple(dict.fromkeys(chosen))


def _integer(variable: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{variable} {text!r} is not a whole number") from None
