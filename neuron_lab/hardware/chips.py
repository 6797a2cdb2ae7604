"""Neuron chips: engines, memories and links of one physical core, each figure with its source.

Where two documents disagree both values are kept: the larger bounds the best case, the smaller the worst.
The table does not know instances (how many chips are in a machine) nor how cores are grouped.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType

from neuron_lab.errors import unknown_choice
from neuron_lab.hardware.facts import Fact

_NKI_GUIDE = "Neuron SDK documentation, Trainium2 Architecture Guide for NKI"
_NKI_GUIDE_3 = "Neuron SDK documentation, Trainium3 Architecture Guide for NKI"
_CHIP_PAGE = "Neuron SDK documentation, Trainium2 Architecture"
_CHIP_PAGE_1 = "Neuron SDK documentation, Trainium Architecture"
_CHIP_PAGE_3 = "Neuron SDK documentation, Trainium3 Architecture"
_INF2_PAGE = "Neuron SDK documentation, Inferentia2 Architecture"
_DMA_PAGE = "Neuron SDK documentation, Introduction to DMA with NKI"
_DMA_GUIDE = "Neuron SDK documentation, Guideline to Avoid Under-Utilizing DMA Bandwidth"
_ISA_GUIDE = "Neuron SDK documentation, Trainium/Inferentia2 Architecture Guide for NKI"

GIB = 1024**3


@dataclass(frozen=True)
class Chip:
    """One chip generation. Engine figures are of one *physical* core; memory figures say what they count."""

    name: str
    generation: str
    physical_cores: Fact

    array_rows: Fact  # the tensor engine's processing elements
    array_columns: Fact
    tensor_clock: Fact
    tensor_rate: Mapping[str, Fact]  # by dtype name
    tensor_min_cycles: Fact  # initiation interval of one instruction

    vector_clock: Fact
    vector_lanes: Fact  # elements a cycle when no fast mode applies
    vector_width_16bit: Fact  # the fast mode's elements a cycle
    vector_width_other: Fact
    scalar_clock: Fact
    scalar_width: Fact
    scalar_width_16bit: Fact
    gpsimd_clock: Fact
    gpsimd_width: Fact

    hbm_size: Fact
    hbm_stacks: Fact
    hbm_bandwidth_best: Fact
    hbm_bandwidth_worst: Fact
    dma_engines: Fact  # per physical core
    dma_rate_peak: Fact  # of one DMA engine
    dma_rate_achieved: Fact
    dma_start_latency: Fact
    dma_full_rate_bytes: Fact  # a descriptor shorter than this takes as long as one of this length

    lnc_choices: tuple[int, ...]  # physical cores per logical core; the last one is the default

    @property
    def default_lnc(self) -> int:
        return self.lnc_choices[-1]

    @property
    def cores_per_stack(self) -> int:
        """Physical cores that share one HBM stack."""
        return int(self.physical_cores.value // self.hbm_stacks.value)

    def facts(self) -> dict[str, Fact]:
        """Every figure by name, the ones that depend on the dtype as `tensor_rate[bfloat16]`."""
        found: dict[str, Fact] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Fact):
                found[field.name] = value
            elif isinstance(value, Mapping):
                found |= {f"{field.name}[{key}]": fact for key, fact in value.items()}
        return found


def _tensor_rate(tflops: float, source: str, *dtypes: str) -> dict[str, Fact]:
    fact = Fact(tflops, "TFLOP/s per core", source)
    return dict.fromkeys(dtypes, fact)


_DMA_ROW = Fact(
    2430,
    "bytes",
    f"{_DMA_GUIDE}: read off its curve of bandwidth against bytes per partition; the curve's shape is taken "
    "for every generation",
    "assumed",
)

TRN1 = Chip(
    name="trn1",
    generation="NeuronCore-v2",
    physical_cores=Fact(2, "cores per chip", _ISA_GUIDE),
    array_rows=Fact(128, "rows", _ISA_GUIDE),
    array_columns=Fact(128, "columns", _ISA_GUIDE),
    tensor_clock=Fact(2.8, "GHz", _ISA_GUIDE),
    tensor_rate=MappingProxyType(
        _tensor_rate(92, _ISA_GUIDE, "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2")
        | _tensor_rate(23, _ISA_GUIDE, "float32")
    ),
    tensor_min_cycles=Fact(64, "cycles per instruction", _ISA_GUIDE),
    vector_clock=Fact(1.12, "GHz", _ISA_GUIDE),
    vector_lanes=Fact(128, "elements/cycle", _ISA_GUIDE),
    vector_width_16bit=Fact(128, "elements/cycle", _ISA_GUIDE),
    vector_width_other=Fact(128, "elements/cycle", _ISA_GUIDE),
    scalar_clock=Fact(1.4, "GHz", _ISA_GUIDE),
    scalar_width=Fact(128, "elements/cycle", _ISA_GUIDE),
    scalar_width_16bit=Fact(128, "elements/cycle", _ISA_GUIDE),
    gpsimd_clock=Fact(1.4, "GHz", _ISA_GUIDE),
    gpsimd_width=Fact(128, "32-bit elements/cycle", _ISA_GUIDE),  # 8 processors of 512 bits
    hbm_size=Fact(32 * GIB, "bytes per chip", _ISA_GUIDE),
    hbm_stacks=Fact(2, "stacks per chip", _ISA_GUIDE),
    hbm_bandwidth_best=Fact(880, "GB/s per chip", f"{_CHIP_PAGE_1} (820 GiB/s)"),
    hbm_bandwidth_worst=Fact(820, "GB/s per chip", _ISA_GUIDE),
    dma_engines=Fact(16, "engines per core", _DMA_PAGE),
    dma_rate_peak=Fact(27.2, "GB/s per engine", _DMA_PAGE),
    dma_rate_achieved=Fact(17, "GB/s per engine", _DMA_GUIDE),
    dma_start_latency=Fact(1300, "ns", f"{_DMA_GUIDE}, given for trn2", "assumed"),
    dma_full_rate_bytes=_DMA_ROW,
    lnc_choices=(1,),
)

INF2 = dataclasses.replace(
    TRN1,
    name="inf2",
    hbm_size=Fact(32 * GIB, "bytes per chip", _INF2_PAGE),
    hbm_bandwidth_best=Fact(880, "GB/s per chip", f"{_INF2_PAGE} (820 GiB/s)"),
)

TRN2 = Chip(
    name="trn2",
    generation="NeuronCore-v3",
    physical_cores=Fact(8, "cores per chip", _NKI_GUIDE),
    array_rows=Fact(128, "rows", _NKI_GUIDE),
    array_columns=Fact(128, "columns", _NKI_GUIDE),
    tensor_clock=Fact(2.4, "GHz", _NKI_GUIDE),
    tensor_rate=MappingProxyType(
        _tensor_rate(79, _NKI_GUIDE, "bfloat16", "float16")
        | _tensor_rate(20, _NKI_GUIDE, "float32")
        | _tensor_rate(158, _NKI_GUIDE, "float8_e4m3fn", "float8_e5m2")
    ),
    tensor_min_cycles=Fact(64, "cycles per instruction", _ISA_GUIDE),
    vector_clock=Fact(0.96, "GHz", _NKI_GUIDE),
    vector_lanes=Fact(128, "elements/cycle", _ISA_GUIDE),
    vector_width_16bit=Fact(512, "elements/cycle", _NKI_GUIDE),
    vector_width_other=Fact(256, "elements/cycle", _NKI_GUIDE),
    scalar_clock=Fact(1.2, "GHz", _NKI_GUIDE),
    scalar_width=Fact(128, "elements/cycle", _NKI_GUIDE),
    scalar_width_16bit=Fact(128, "elements/cycle", _NKI_GUIDE),
    gpsimd_clock=Fact(1.2, "GHz", _NKI_GUIDE),
    gpsimd_width=Fact(128, "32-bit elements/cycle", _NKI_GUIDE),  # 8 processors of 512 bits
    hbm_size=Fact(96 * GIB, "bytes per chip", _NKI_GUIDE),
    hbm_stacks=Fact(4, "stacks per chip", _NKI_GUIDE),
    hbm_bandwidth_best=Fact(3000, "GB/s per chip", _NKI_GUIDE),
    hbm_bandwidth_worst=Fact(2900, "GB/s per chip", _CHIP_PAGE),
    dma_engines=Fact(16, "engines per core", _DMA_PAGE),
    dma_rate_peak=Fact(27.2, "GB/s per engine", _DMA_PAGE),
    dma_rate_achieved=Fact(23, "GB/s per engine", _DMA_PAGE),
    dma_start_latency=Fact(1300, "ns", _DMA_GUIDE),
    dma_full_rate_bytes=dataclasses.replace(_DMA_ROW, source=f"{_DMA_GUIDE}: read off its curve"),
    lnc_choices=(1, 2),
)

TRN3 = Chip(
    name="trn3",
    generation="NeuronCore-v4",
    physical_cores=Fact(8, "cores per chip", _NKI_GUIDE_3),
    array_rows=Fact(128, "rows", _NKI_GUIDE_3),
    array_columns=Fact(128, "columns", _NKI_GUIDE_3),
    tensor_clock=Fact(2.4, "GHz", _NKI_GUIDE_3),
    tensor_rate=MappingProxyType(
        _tensor_rate(79, _NKI_GUIDE_3, "bfloat16", "float16")
        | _tensor_rate(20, _NKI_GUIDE_3, "float32")
        # microscaled formats alone reach 315; plain fp8 is not listed apart and takes the 16-bit rate
        | _tensor_rate(79, _NKI_GUIDE_3, "float8_e4m3fn", "float8_e5m2")
        | _tensor_rate(315, _NKI_GUIDE_3, "mxfp8", "mxfp4")
    ),
    tensor_min_cycles=Fact(64, "cycles per instruction", _ISA_GUIDE),
    vector_clock=Fact(1.2, "GHz", _NKI_GUIDE_3),
    vector_lanes=Fact(128, "elements/cycle", _ISA_GUIDE),
    vector_width_16bit=Fact(512, "elements/cycle", _NKI_GUIDE_3),
    vector_width_other=Fact(256, "elements/cycle", _NKI_GUIDE_3),
    scalar_clock=Fact(1.2, "GHz", _NKI_GUIDE_3),
    scalar_width=Fact(128, "elements/cycle", _NKI_GUIDE_3),
    scalar_width_16bit=Fact(256, "elements/cycle", _NKI_GUIDE_3),
    gpsimd_clock=Fact(1.2, "GHz", _NKI_GUIDE_3),
    gpsimd_width=Fact(128, "32-bit elements/cycle", f"{_NKI_GUIDE}, the generation before", "assumed"),
    hbm_size=Fact(144 * GIB, "bytes per chip", _NKI_GUIDE_3),
    hbm_stacks=Fact(4, "stacks per chip", _NKI_GUIDE_3),
    hbm_bandwidth_best=Fact(4900, "GB/s per chip", _CHIP_PAGE_3),
    hbm_bandwidth_worst=Fact(4700, "GB/s per chip", _NKI_GUIDE_3),
    dma_engines=Fact(16, "engines per core", _DMA_PAGE),
    dma_rate_peak=Fact(38.4, "GB/s per engine", _DMA_PAGE),
    dma_rate_achieved=Fact(33, "GB/s per engine", _DMA_PAGE),
    dma_start_latency=Fact(1300, "ns", f"{_DMA_GUIDE}, given for trn2", "assumed"),
    dma_full_rate_bytes=_DMA_ROW,
    lnc_choices=(1, 2),
)

CHIPS: Mapping[str, Chip] = MappingProxyType({each.name: each for each in (TRN1, INF2, TRN2, TRN3)})


def chip(name: str) -> Chip:
    """The chip of that name, or a UsageError that lists the names."""
    try:
        return CHIPS[name]
    except KeyError:
        raise unknown_choice("chip", name, CHIPS) from None
