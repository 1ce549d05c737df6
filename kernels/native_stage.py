"""The way through slabs in C (kernels/native/staging.c)."""

import ctypes
from typing import Any, Final, NoReturn

from kernels.host_copies import NATIVE_ITEM_BYTES, CopyTeam, count_strides
from kernels.memory import Matrix, PinnedSlab
from kernels.stages import Errand, SlabStage, Stage

NATIVE_SLAB_BYTES: Final = 4 << 20
NATIVE_SLABS: Final = 6

_OUT_OF_MEMORY: Final = 2  # CUDA_ERROR_OUT_OF_MEMORY


def open_stage(device_index: int, team: CopyTeam, stream: Any) -> Stage:
    """The native one, if there is one; else that in Python.

    Args:
        device_index: CUDA's number of the device, which must be the calling thread's.
        team: Who copies.
        stream: CuPy's stream of the transfers.

    Raises:
        CUDADriverError: There is no memory for slabs or threads.
    """
    if team.native is None:
        return SlabStage(device_index, team, stream)
    return NativeStage(team, stream)


class NativeWalk:
    """An errand of a native stage.

    Args:
        library: The C library.
        stage: Address of the stage.
        number: Of the errand.
        matrix: Its matrix, which must live until then.
    """

    def __init__(self, library: ctypes.CDLL, stage: int, number: int, matrix: Matrix) -> None:
        self._library = library
        self._stage = stage
        self._number = number
        self._matrix = matrix

    def done(self) -> bool:
        """As `Walk` says."""
        return bool(self._library.is_over(self._stage, self._number))

    def result(self) -> None:
        """As `Walk` says."""
        status: int = self._library.await_errand(self._stage, self._number)
        if status != 0:
            _raise(status)


class NativeStage:
    """One direction, as `Stage` says.

    Args:
        team: A native one.
        stream: CuPy's stream of the transfers.

    Raises:
        CUDADriverError: There is no memory for slabs or threads.
    """

    def __init__(self, team: CopyTeam, stream: Any) -> None:
        assert team.native is not None, "the native way needs a native team"
        self._library, address = team.native
        self._slabs = [PinnedSlab(NATIVE_SLAB_BYTES) for _ in range(NATIVE_SLABS)]
        memories = (ctypes.c_void_p * NATIVE_SLABS)(*(slab.pointer for slab in self._slabs))
        _declare(self._library)
        self._stage: int = self._library.open_stage(
            address, stream.ptr, memories, NATIVE_SLABS, NATIVE_SLAB_BYTES
        )
        self._walks: list[NativeWalk] = []
        if not self._stage:
            _raise(_OUT_OF_MEMORY)

    def send(self, errand: Errand) -> NativeWalk:
        """As `Stage` says."""
        matrix, region = errand.matrix, errand.region
        assert matrix.itemsize in NATIVE_ITEM_BYTES, "kernels have elements of 2, 4 or 8 bytes"
        item = matrix.itemsize
        number: int = self._library.ask_stage(
            *(self._stage, int(errand.inwards), int(errand.alone)),
            *(errand.after and errand.after.ptr, errand.start.ptr, errand.end.ptr),
            *(matrix.ctypes.data, *count_strides(matrix)),
            *(region.pointer, region.pitch * item, *matrix.shape, item),
        )
        if number == 0:
            _raise(_OUT_OF_MEMORY)
        walk = NativeWalk(self._library, self._stage, number, matrix)
        self._walks.append(walk)
        return walk

    def limit(self, helpers: int) -> None:
        """As `Stage` says."""
        self._library.limit_helpers(self._stage, helpers)

    def finish(self) -> None:
        """As `Stage` says."""
        status: int = self._library.finish_stage(self._stage)
        self._walks.clear()
        if status != 0:
            _raise(status)

    def abandon(self) -> None:
        """As `Stage` says."""
        self._library.abandon_errands(self._stage)
        self._walks.clear()

    def close(self) -> None:
        """As `Stage` says."""
        if self._stage:
            self._library.close_stage(self._stage)
            self._stage = 0
        while self._slabs:
            self._slabs.pop().free()


def _declare(library: ctypes.CDLL) -> None:
    """Types of what the library takes and returns."""
    address, number, count = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
    host = (address, number, number)
    device = (ctypes.c_uint64, number)
    for function, arguments, result in (
        (library.open_stage, (address, address, address, count, number), address),
        (
            library.ask_stage,
            (address, count, count, *(address,) * 3, *host, *device, *(number,) * 3),
            number,
        ),
        (library.is_over, (address, number), count),
        (library.await_errand, (address, number), count),
        (library.limit_helpers, (address, count), None),
        (library.finish_stage, (address,), count),
        (library.abandon_errands, (address,), None),
        (library.close_stage, (address,), None),
    ):
        function.argtypes, function.restype = arguments, result


def _raise(status: int) -> NoReturn:
    """Raise what CuPy raises for such a result of the driver's."""
    from cupy.cuda.driver import CUDADriverError

    raise CUDADriverError(status)
