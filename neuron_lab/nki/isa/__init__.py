"""`nki.isa`: one function per instruction. Every one takes `name=` and returns an `NkiInstruction`."""

from __future__ import annotations

from neuron_lab.nki.enums import (
    dge_mode,
    dma_engine,
    engine,
    matmul_perf_mode,
    nc_version,
    oob_mode,
    reduce_cmd,
)
from neuron_lab.nki.instruction import NkiInstruction
from neuron_lab.nki.isa.activation_table import activate2, activation, activation_reduce, exponential
from neuron_lab.nki.isa.core_pair import core_barrier, sendrecv
from neuron_lab.nki.isa.elementwise import (
    reciprocal,
    scalar_tensor_tensor,
    tensor_scalar,
    tensor_scalar_cumulative,
    tensor_scalar_reduce,
    tensor_tensor,
    tensor_tensor_scan,
)
from neuron_lab.nki.isa.gathering import local_gather, nc_n_gather, nc_stream_shuffle
from neuron_lab.nki.isa.matrix import nc_matmul, nc_transpose
from neuron_lab.nki.isa.microscaling import nc_matmul_mx, quantize_mx
from neuron_lab.nki.isa.movement import (
    dma_compute,
    dma_copy,
    dma_transpose,
    memset,
    tensor_copy,
    tensor_copy_predicated,
)
from neuron_lab.nki.isa.randomness import (
    dropout,
    rand2,
    rand_get_state,
    rand_set_state,
    rng,
    set_rng_seed,
)
from neuron_lab.nki.isa.reduction import bn_aggr, bn_stats, tensor_partition_reduce, tensor_reduce
from neuron_lab.nki.isa.register_moves import register_alloc, register_load, register_move, register_store
from neuron_lab.nki.isa.searching import (
    max8,
    nc_find_index8,
    nc_match_replace8,
    nonzero_with_count,
    sequence_bounds,
    topk,
)
from neuron_lab.nki.isa.selection import affine_select, iota, range_select, select_reduce
from neuron_lab.nki.isa.targets import get_nc_sub_version, get_nc_version
from neuron_lab.nki.refusal import NkiValidationError
from neuron_lab.nki.registers import VirtualRegister

# deprecated names
tensor_engine = engine.tensor
vector_engine = engine.vector
scalar_engine = engine.scalar
gpsimd_engine = engine.gpsimd
unknown_engine = engine.unknown

__all__ = [
    "NkiInstruction",
    "NkiValidationError",
    "VirtualRegister",
    "activate2",
    "activation",
    "activation_reduce",
    "affine_select",
    "bn_aggr",
    "bn_stats",
    "core_barrier",
    "dge_mode",
    "dma_compute",
    "dma_copy",
    "dma_engine",
    "dma_transpose",
    "dropout",
    "engine",
    "exponential",
    "get_nc_sub_version",
    "get_nc_version",
    "gpsimd_engine",
    "iota",
    "local_gather",
    "matmul_perf_mode",
    "max8",
    "memset",
    "nc_find_index8",
    "nc_match_replace8",
    "nc_matmul",
    "nc_matmul_mx",
    "nc_n_gather",
    "nc_stream_shuffle",
    "nc_transpose",
    "nc_version",
    "nonzero_with_count",
    "oob_mode",
    "quantize_mx",
    "rand2",
    "rand_get_state",
    "rand_set_state",
    "range_select",
    "reciprocal",
    "reduce_cmd",
    "register_alloc",
    "register_load",
    "register_move",
    "register_store",
    "rng",
    "scalar_engine",
    "scalar_tensor_tensor",
    "select_reduce",
    "sendrecv",
    "sequence_bounds",
    "set_rng_seed",
    "tensor_copy",
    "tensor_copy_predicated",
    "tensor_engine",
    "tensor_partition_reduce",
    "tensor_reduce",
    "tensor_scalar",
    "tensor_scalar_cumulative",
    "tensor_scalar_reduce",
    "tensor_tensor",
    "tensor_tensor_scan",
    "topk",
    "unknown_engine",
    "vector_engine",
]
