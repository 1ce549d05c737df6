"""The stage in C: copies through page-locked slabs (kernels/transfer/native/stage.c)."""

from dataclasses import dataclass
from typing import Any, Final, NoReturn

from wavetrim.kernels.gemm.operands import Layout
from wavetrim.kernels.transfer.nodes import find_cores, stay_beside
from wavetrim.kernels.transfer.pinned import Matrix
from wavetrim.native.pool import ThreadPool

SLAB_BYTES: Final = 1 << 20  # bytes
"""Size of a page-locked slab, through which pageable memory is copied; chosen."""

SLABS: Final = 24  # slabs
"""Slabs of each direction. Chosen: each thread fills one while another is transferred."""

_OUT_OF_MEMORY: Final = 2  # CUDA_ERROR_OUT_OF_MEMORY
_PORTABLE: Final = 1  # cudaHostAllocPortable


@dataclass(frozen=True, slots=True)
class CopyRequest:
    """A matrix to copy, and the events around its transfers.

    Attributes:
        matrix: The matrix in host memory.
        layout: How it lies on the device; of the same shape.
        inwards: Whether it is copied to the device.
        after: CuPy event to wait for; None for none.
        start: CuPy event to record before the transfers.
        end: CuPy event to record after the transfers.
    """

    matrix: Matrix
    layout: Layout
    inwards: bool
    after: Any
    start: Any
    end: Any


class StagedCopy:
    """A copy that a native stage makes, as `PendingCopy` says.

    Args:
        stage: The stage.
        request: What is copied.
        number: Number of the request in its direction, from 1.
    """

    __slots__ = ("_number", "_request", "_stage", "end", "start")

    def __init__(self, stage: "NativeStage", request: CopyRequest, number: int) -> None:
        self._stage = stage
        self._request = request
        self._number = number
        self.start = request.start
        self.end = request.end

    def done(self) -> bool:
        """As `PendingCopy` says."""
        return self._stage.is_done(self._request.inwards, self._number)

    def result(self, *, awake: bool = False) -> None:  # noqa: ARG002 -- the stage decides itself
        """As `PendingCopy` says."""
        self._stage.await_copy(self._request.inwards, self._number)


class NativeStage:
    """Copies of pageable memory in both directions. After `close` only `close` may be called.

    Args:
        pool: The copy threads; must be closed after the stage.
        in_stream: CuPy's stream of the transfers to the device.
        out_stream: That of the transfers from the device.

    Raises:
        CUDARuntimeError: No page-locked memory for slabs.
        CUDADriverError: No memory for the stage.
        RuntimeError: The pool is closed.
    """

    def __init__(self, pool: ThreadPool, in_stream: Any, out_stream: Any) -> None:
        self._library = pool.library
        self._address: int | None = None
        self._slabs: int | None = None  # address
        self._requests: list[CopyRequest] = []  # keeps their matrices and events alive for C
        try:
            self._open(pool, in_stream, out_stream)
        except BaseException:
            self.close()
            raise

    def send(self, request: CopyRequest) -> StagedCopy:
        """Queue a copy."""
        matrix, layout = request.matrix, request.layout
        item = matrix.itemsize
        assert item in (1, 2, 4, 8, 16), "kernels have elements of 2 to 16 bytes"
        assert matrix.size > 0, "steps have elements to copy"
        self._requests.append(request)
        number: int = self._library.request_copy(
            *(self._open_address, int(request.inwards)),
            *(request.after and request.after.ptr, request.start.ptr, request.end.ptr),
            *(matrix.ctypes.data, *_count_strides(matrix)),
            *(layout.pointer, layout.leading_dimension * item, layout.padding * item),
            *(*matrix.shape, item),
        )
        if number == 0:
            _raise(_OUT_OF_MEMORY)
        return StagedCopy(self, request, number)

    def finish(self) -> None:
        """Wait for all requests, and raise the first error."""
        status: int = self._library.finish_stage(self._open_address)
        self._requests.clear()
        _check(status)

    def abandon(self) -> None:
        """Drop requests that have not begun, wait for the others, and clear errors."""
        self._library.abandon_copies(self._open_address)
        self._requests.clear()

    def close(self) -> None:
        """Free the slabs; no request may be under way."""
        address, self._address = self._address, None
        if address is not None:
            self._library.close_stage(address)
        slabs, self._slabs = self._slabs, None
        if slabs is not None:
            _free_slabs(slabs)

    def is_done(self, inwards: bool, number: int) -> bool:
        """Whether a copy has ended, if only by failing."""
        return bool(self._library.is_done(self._open_address, inwards, number))

    def await_copy(self, inwards: bool, number: int) -> None:
        """Wait until a copy has ended, and help if need be; raise the stage's error if it fails."""
        _check(self._library.await_copy(self._open_address, inwards, number))

    def _open(self, pool: ThreadPool, in_stream: Any, out_stream: Any) -> None:
        self._slabs = _allocate_slabs(2 * SLABS * SLAB_BYTES)
        with pool as address:
            if address is None:
                raise RuntimeError("the threads that copy are ended")
            self._address = self._library.open_stage(
                address, in_stream.ptr, out_stream.ptr, self._slabs, SLABS, SLAB_BYTES
            )
        if self._address is None:
            _raise(_OUT_OF_MEMORY)

    @property
    def _open_address(self) -> int:
        if self._address is None:
            raise RuntimeError("the stage is closed")
        return self._address


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


def _count_strides(matrix: Matrix) -> tuple[int, int]:
    """Row and column stride in bytes; for a single row or column, that of adjacent elements."""
    down, across = matrix.strides
    rows, columns = matrix.shape
    if columns == 1:
        across = matrix.itemsize
    if rows == 1:
        down = columns * across
    return down, across


def _check(status: int) -> None:
    if status != 0:
        _raise(status)


def _raise(status: int) -> NoReturn:
    """Raise CuPy's error for a status of the driver."""
    from cupy.cuda.driver import CUDADriverError

    raise CUDADriverError(status)
