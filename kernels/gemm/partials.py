"""Memory for the partial sums of tiles that several blocks share (stream-K)."""

from dataclasses import dataclass
from typing import Any, Final

from wavetrim.kernels.gemm.prepared import DriverCall, prepare_clearing
from wavetrim.kernels.spec import KernelSpec

_FLAG_BYTES: Final = 4
_SUM_BYTES: Final = 4  # a float32


@dataclass(frozen=True, slots=True)
class Partials:
    """Memory in which the blocks of one launch exchange partial sums.

    Attributes:
        sums: Address of one tile for each block.
        flags: Address of a 32-bit flag for each block, 0 when the launch begins.
        clearing: Call that sets the flags to 0; None if they are 0.
        memory: CuPy's memory, kept alive.
    """

    sums: int
    flags: int
    clearing: DriverCall | None
    memory: object


class Workspace:
    """Memory for the partial sums of all launches of one stream.

    A launch ends before the next begins, so they share it: for each multiprocessor a tile, together
    at most 17 MB on an H200, and a flag, which each launch leaves at 0.
    """

    def __init__(self) -> None:
        self._sums: Any = None
        self._flags: Any = None
        self._sums_bytes = 0

    def find(self, spec: KernelSpec, sms: int) -> Partials:
        """The memory for a launch in CuPy's current stream, allocated if necessary.

        Args:
            spec: The kernel.
            sms: Multiprocessors of the current device.

        Raises:
            OutOfMemoryError: CuPy's; not enough device memory.
        """
        from cupy.cuda import alloc, get_current_stream

        sums_bytes = count_sums_bytes(spec, sms)
        if self._sums_bytes < sums_bytes:
            self._sums, self._sums_bytes = alloc(sums_bytes), sums_bytes
        if self._flags is None:
            self._flags = alloc(sms * _FLAG_BYTES)
            clearing = prepare_clearing(self._flags.ptr, sms * _FLAG_BYTES)
            clearing.enqueue(get_current_stream().ptr)
        return Partials(self._sums.ptr, self._flags.ptr, None, (self._sums, self._flags))

    def free(self) -> None:
        """Release the memory; it is freed when no launch uses it."""
        self._sums = self._flags = None
        self._sums_bytes = 0


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
