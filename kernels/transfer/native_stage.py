"""The way through slabs in C (kernels/transfer/native/stage.c)."""

import ctypes
from typing import Any, Final, NoReturn

from wavetrim.kernels.transfer.host_copies import NATIVE_ITEM_BYTES, count_strides
from wavetrim.kernels.transfer.slabs import PinnedSlab
from wavetrim.kernels.transfer.stages import Errand
from wavetrim.native.pool import ThreadPool

NATIVE_SLAB_BYTES: Final = 4 << 20
NATIVE_SLABS: Final = 6

_OUT_OF_MEMORY: Final = 2  # CUDA_ERROR_OUT_OF_MEMORY


class NativeWalk:
    """An errand of a native stage.

    Args:
        stage: The stage.
        number: Of the errand, from 1.
    """

    def __init__(self, stage: "NativeStage", number: int) -> None:
        self._stage = stage
        self._number = number

    def done(self) -> bool:
        """As `Walk` says."""
        return self._stage.is_over(self._number)

    def result(self) -> None:
        """As `Walk` says."""
        self._stage.await_errand(self._number)


class NativeStage:
    """One direction, as `Stage` says. After `close` everything but `close` is refused.

    Args:
        pool: Who copies; to be closed behind the stage.
        stream: CuPy's stream of the transfers.

    Raises:
        CUDARuntimeError: There is no memory for slabs.
        CUDADriverError: There is none for the rest, or no thread.
        RuntimeError: The pool is closed.
    """

    def __init__(self, pool: ThreadPool, stream: Any) -> None:
        self._library = pool.library
        self._address: int | None = None
        self._slabs: list[PinnedSlab] = []
        self._errands: list[Errand] = []  # C uses their matrices and events until it is done
        try:
            self._open(pool, stream)
        except BaseException:
            self.close()
            raise

    def send(self, errand: Errand) -> NativeWalk:
        """As `Stage` says."""
        matrix, place = errand.matrix, errand.place
        item = matrix.itemsize
        assert item in NATIVE_ITEM_BYTES, "kernels have elements of 2, 4 or 8 bytes"
        assert matrix.size > 0, "steps have elements to copy"
        self._errands.append(errand)
        number: int = self._library.ask_stage(
            *(self._open_address, int(errand.inwards), int(errand.alone)),
            *(errand.after and errand.after.ptr, errand.start.ptr, errand.end.ptr),
            *(matrix.ctypes.data, *count_strides(matrix)),
            *(place.pointer, place.leading_dimension * item, *matrix.shape, item),
        )
        if number == 0:
            _raise(_OUT_OF_MEMORY)
        return NativeWalk(self, number)

    def limit(self, helpers: int) -> None:
        """As `Stage` says."""
        self._library.limit_helpers(self._open_address, helpers)

    def finish(self) -> None:
        """As `Stage` says."""
        status: int = self._library.finish_stage(self._open_address)
        self._errands.clear()
        _check(status)

    def abandon(self) -> None:
        """As `Stage` says."""
        self._library.abandon_errands(self._open_address)
        self._errands.clear()

    def close(self) -> None:
        """As `Stage` says."""
        address, self._address = self._address, None
        if address is not None:
            self._library.close_stage(address)
        while self._slabs:
            self._slabs.pop().free()

    def is_over(self, number: int) -> bool:
        """Whether an errand is over, be it failed."""
        return bool(self._library.is_over(self._open_address, number))

    def await_errand(self, number: int) -> None:
        """Wait until an errand is over, and raise what went wrong with it or with one before it."""
        _check(self._library.await_errand(self._open_address, number))

    def _open(self, pool: ThreadPool, stream: Any) -> None:
        for _ in range(NATIVE_SLABS):
            self._slabs.append(PinnedSlab(NATIVE_SLAB_BYTES))
        memories = (ctypes.c_void_p * NATIVE_SLABS)(*(slab.pointer for slab in self._slabs))
        with pool.hold() as address:
            if address is None:
                raise RuntimeError("the threads that copy are ended")
            self._address = self._library.open_stage(
                address, stream.ptr, memories, NATIVE_SLABS, NATIVE_SLAB_BYTES
            )
        if self._address is None:
            _raise(_OUT_OF_MEMORY)

    @property
    def _open_address(self) -> int:
        if self._address is None:
            raise RuntimeError("the stage is closed")
        return self._address


def _check(status: int) -> None:
    if status != 0:
        _raise(status)


def _raise(status: int) -> NoReturn:
    """Raise what CuPy raises for such a result of the driver's."""
    from cupy.cuda.driver import CUDADriverError

    raise CUDADriverError(status)
