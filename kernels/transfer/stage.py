"""The stage: copies of pageable memory through page-locked slabs (native/stage.c).

Commands ask it for copies (native/commands.c). Python only opens and closes it.
"""

from typing import Any, Final, NoReturn

from wavetrim.kernels.transfer.nodes import find_cores, stay_beside
from wavetrim.native.pool import ThreadPool

SLAB_BYTES: Final = 1 << 20  # bytes
"""Size of a page-locked slab, through which pageable memory is copied; chosen."""

SLABS: Final = 24  # slabs
"""Slabs of each direction. Chosen: each thread fills one while another is transferred."""

_OUT_OF_MEMORY: Final = 2  # CUDA_ERROR_OUT_OF_MEMORY
_PORTABLE: Final = 1  # cudaHostAllocPortable


class Stage:
    """Copies of pageable memory in both directions. After `close` only `close` may be called.

    Args:
        pool: The copy threads; must be closed after the stage.
        in_stream: CuPy's stream of the transfers to the device.
        out_stream: That of the transfers from the device.

    Attributes:
        address: Its address, for C.

    Raises:
        CUDARuntimeError: No page-locked memory for slabs.
        CUDADriverError: No memory for the stage.
        RuntimeError: The pool is closed.
    """

    def __init__(self, pool: ThreadPool, in_stream: Any, out_stream: Any) -> None:
        self._library = pool.library
        self.address: int | None = None
        self._slabs: int | None = None  # address
        try:
            self._open(pool, in_stream, out_stream)
        except BaseException:
            self.close()
            raise

    def finish(self) -> None:
        """Wait for all requests, and raise the first error."""
        status: int = self._library.finish_stage(self.address)
        if status:
            _raise(status)

    def abandon(self) -> None:
        """Drop requests that have not begun, wait for the others, and clear errors."""
        self._library.abandon_copies(self.address)

    def close(self) -> None:
        """Free the slabs; no request may be under way."""
        address, self.address = self.address, None
        if address is not None:
            self._library.close_stage(address)
        slabs, self._slabs = self._slabs, None
        if slabs is not None:
            _free_slabs(slabs)

    def _open(self, pool: ThreadPool, in_stream: Any, out_stream: Any) -> None:
        self._slabs = _allocate_slabs(2 * SLABS * SLAB_BYTES)
        with pool as address:
            if address is None:
                raise RuntimeError("the threads that copy are ended")
            self.address = self._library.open_stage(
                address, in_stream.ptr, out_stream.ptr, self._slabs, SLABS, SLAB_BYTES
            )
        if self.address is None:
            _raise(_OUT_OF_MEMORY)


def _allocate_slabs(size_bytes: int) -> int:
    """Address of new page-locked memory, on the memory node that the current GPU is next to.

    Not from CuPy's pool, which rounds up to powers of two and never shrinks.
    """
    from cupy.cuda import runtime

    with stay_beside(find_cores(runtime.deviceGetPCIBusId(runtime.getDevice()))):
        address: int = runtime.hostAlloc(size_bytes, _PORTABLE)
    return address


def _free_slabs(address: int) -> None:
    from cupy.cuda import runtime

    runtime.freeHost(address)


def _raise(status: int) -> NoReturn:
    """Raise CuPy's error for a status of the driver."""
    from cupy.cuda.driver import CUDADriverError

    raise CUDADriverError(status)
