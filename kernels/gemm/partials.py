"""Memory for the partial sums of tiles that several blocks compute together."""

from dataclasses import dataclass
from typing import Any, Final

from wavetrim.kernels.catalog import KernelSpec
from wavetrim.kernels.gemm.prepared import DriverCall, prepare_clearing

FLAG_SETS: Final = 64
"""Launches, one behind the other, that find flags of their own before any are set to 0 again."""

_FLAG_BYTES: Final = 4
_SUM_BYTES: Final = 4  # of a float32


@dataclass(frozen=True, slots=True)
class Partials:
    """Where the blocks of one launch leave partial sums, and say so.

    Attributes:
        sums: Address of a tile for each block.
        flags: Address of a 32-bit number for each block, which has to be 0 as the launch begins.
        clearing: Sets the flags to 0; None where somebody else does.
        memory: CuPy's memory, which lives as long as this.
    """

    sums: int
    flags: int
    clearing: DriverCall | None
    memory: object


class Workspace:
    """Partial sums of the launches of one stream, kept from product to product.

    As one launch ends before the next begins, all of them share one place for sums, which is as
    large as all multiprocessors together can use: at most 17 MB on an H200. There are FLAG_SETS
    sets of flags, which begin at 0, so that one call clears those of many launches.
    """

    def __init__(self) -> None:
        self._sums: Any = None
        self._flags: Any = None
        self._sums_bytes = 0
        self._flags_bytes = 0

    def find(self, spec: KernelSpec, sms: int, number: int) -> Partials:
        """Where a launch has its partial sums. `clear` sets its flags to 0, and so does this now.

        Args:
            spec: The kernel.
            sms: Multiprocessors of the current device.
            number: Of the launch in its product, from 0.

        Raises:
            OutOfMemoryError: CuPy's; there is no memory for it.
        """
        from cupy.cuda import alloc, get_current_stream

        sums_bytes = count_sums_bytes(spec, sms)
        if self._sums_bytes < sums_bytes:
            self._sums, self._sums_bytes = alloc(sums_bytes), sums_bytes
        set_bytes = sms * _FLAG_BYTES
        if self._flags is None:
            flags_bytes = FLAG_SETS * set_bytes
            self._flags, self._flags_bytes = alloc(flags_bytes), flags_bytes
            self.clear(get_current_stream().ptr)
        flags = self._flags.ptr + number % FLAG_SETS * set_bytes
        return Partials(self._sums.ptr, flags, None, (self._sums, self._flags))

    def clear(self, stream: int) -> None:
        """Set all flags to 0 between two launches: before a product's first and each FLAG_SETS."""
        if self._flags is not None:
            prepare_clearing(self._flags.ptr, self._flags_bytes).enqueue(stream)

    def free(self) -> None:
        """Give the memory back, as soon as no launch has it."""
        self._sums = self._flags = None
        self._sums_bytes = self._flags_bytes = 0


def allocate_partials(spec: KernelSpec, blocks: int) -> Partials:
    """Partial sums for one launch, from CuPy's pool.

    Raises:
        OutOfMemoryError: CuPy's; there is no memory for it.
    """
    from cupy.cuda import alloc

    sums_bytes = count_sums_bytes(spec, blocks)
    memory = alloc(sums_bytes + blocks * _FLAG_BYTES)
    flags = memory.ptr + sums_bytes
    return Partials(memory.ptr, flags, prepare_clearing(flags, blocks * _FLAG_BYTES), memory)


def count_sums_bytes(spec: KernelSpec, blocks: int) -> int:
    """Bytes of a tile of float32 for each block."""
    return blocks * spec.tile.m * spec.tile.n * _SUM_BYTES
