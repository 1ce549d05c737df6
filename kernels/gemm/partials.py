"""Memory for the partial sums of tiles that several blocks share (stream-K)."""

from dataclasses import dataclass
from typing import Any, Final

from wavetrim.kernels.gemm.prepared import DriverCall, prepare_clearing
from wavetrim.kernels.spec import KernelSpec

FLAG_SETS: Final = 64
"""Launches in a row with flags of their own, before one call clears all flags. Chosen: more take
memory, fewer take more calls."""

_FLAG_BYTES: Final = 4
_SUM_BYTES: Final = 4  # a float32


@dataclass(frozen=True, slots=True)
class Partials:
    """Memory in which the blocks of one launch exchange partial sums.

    Attributes:
        sums: Address of one tile for each block.
        flags: Address of a 32-bit flag for each block, 0 when the launch begins.
        clearing: Call that sets the flags to 0; None where the workspace does.
        memory: CuPy's memory, kept alive.
    """

    sums: int
    flags: int
    clearing: DriverCall | None
    memory: object


class Workspace:
    """Memory for the partial sums of all launches of one stream, kept between products.

    A launch ends before the next begins, so all share the memory for sums: one tile for each
    multiprocessor, at most 17 MB on an H200. There are FLAG_SETS sets of flags, so that one call
    clears those of many launches.
    """

    def __init__(self) -> None:
        self._sums: Any = None
        self._flags: Any = None
        self._sums_bytes = 0
        self._flags_bytes = 0

    def find(self, spec: KernelSpec, sms: int, number: int) -> Partials:
        """The memory for a launch, allocated and cleared if necessary.

        Args:
            spec: The kernel.
            sms: Multiprocessors of the current device.
            number: Index of the launch in its product, from 0.

        Raises:
            OutOfMemoryError: CuPy's; not enough device memory.
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

    @property
    def clearing(self) -> DriverCall | None:
        """Sets all flags to 0, before the first launch of a product and after each FLAG_SETS."""
        if self._flags is None:
            return None
        return prepare_clearing(self._flags.ptr, self._flags_bytes)

    def clear(self, stream: int) -> None:
        """Enqueue `clearing`."""
        if (clearing := self.clearing) is not None:
            clearing.enqueue(stream)

    def free(self) -> None:
        """Release the memory; it is freed when no launch uses it."""
        self._sums = self._flags = None
        self._sums_bytes = self._flags_bytes = 0


def allocate_partials(spec: KernelSpec, blocks: int) -> Partials:
    """Memory for one launch, from CuPy's pool.

    Raises:
        OutOfMemoryError: CuPy's; not enough device memory.
    """
    from cupy.cuda import alloc

    sums_bytes = count_sums_bytes(spec, blocks)
    memory = alloc(sums_bytes + blocks * _FLAG_BYTES)
    flags = memory.ptr + sums_bytes
    return Partials(memory.ptr, flags, prepare_clearing(flags, blocks * _FLAG_BYTES), memory)


def count_sums_bytes(spec: KernelSpec, blocks: int) -> int:
    """Bytes of a tile of float32 for each block."""
    return blocks * spec.tile.m * spec.tile.n * _SUM_BYTES
