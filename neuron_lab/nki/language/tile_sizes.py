"""`nl.tile_size`: the limits of tiles on the target in force."""

from __future__ import annotations

from neuron_lab.nki.target import PARTITIONS, PSUM_BANK_BYTES, current_target, psum_banks
from neuron_lab.nki.tensor import NKIObject


class TileSize(NKIObject):
    """Sizes in elements unless the name says bytes."""

    pmax = PARTITIONS
    psum_bank_fmax = 512  # float32 elements
    psum_bank_fmax_bytes = PSUM_BANK_BYTES
    psum_fmax = 512  # deprecated
    gemm_stationary_fmax = 128
    gemm_moving_fmax = 512
    bn_stats_fmax = 512
    psum_min_align = 4  # bytes; not documented, assumed one float32
    sbuf_min_align = 1  # bytes; not documented, assumed

    @property
    def psum_num_banks(self) -> int:
        return psum_banks()

    @property
    def sbuf_fmax_bytes(self) -> int:
        """Bytes of one partition: the physical size, since the usable one is not documented."""
        return current_target().sbuf_partition_bytes

    @property
    def sbuf_size_bytes(self) -> int:
        return self.sbuf_fmax_bytes * PARTITIONS

    @property
    def sbuf_fmax(self) -> int:
        return self.sbuf_fmax_bytes // 4

    @property
    def total_available_sbuf_size(self) -> int:
        """Deprecated name of `sbuf_fmax_bytes`."""
        return self.sbuf_fmax_bytes


tile_size = TileSize()
