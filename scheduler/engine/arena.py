"""The arena in the engine: slabs of shared memory, mapped, and page-locked for the GPU.

The service creates slabs, and decides where matrices lie in them. Each slab is page-locked once, as
a whole, because CUDA refuses copies that span two registrations. This takes long, so a thread locks
one slab after the other. Until its slab is locked, a matrix is pageable.
"""

import gc
import logging
import os
import time
import weakref
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from wavetrim.kernels.errors import DeviceFailure
from wavetrim.kernels.transfer.pinned import lock_region, unlock_region
from wavetrim.scheduler.engine.messages import Send
from wavetrim.scheduler.errors import SlabError
from wavetrim.scheduler.execution.pages import collapse_range, cut_range, map_shared

logger = logging.getLogger(__name__)

_LARGEST_BYTES: Final = 512 * 2**30
"""Limit of CUDA for one registration."""

_REMOVAL_TRIES: Final = 100
"""Tries to unmap a slab, with a pause after each: five seconds in all; chosen."""

_PAUSE_SECONDS: Final = 0.05


@dataclass(slots=True)
class _MappedSlab:
    """One slab. Matrices are views of `memory`; `mapping` keeps its addresses valid."""

    size_bytes: int
    address: int
    mapping: object
    memory: NDArray[np.uint8] | None
    leaving: bool = False
    locked: bool = False
    locking: Future[None] | None = None


class MappedSlabs:
    """Slabs by id. Thread-safe, but only one thread may remove slabs.

    Args:
        device_index: The GPU whose context locks slabs; None to lock none.
        send: Tells the service of slabs that are page-locked (from another thread) or gone.
    """

    def __init__(self, *, device_index: int | None, send: Send) -> None:
        self._device_index = device_index
        self._send = send
        self._slabs: dict[int, _MappedSlab] = {}
        self._locker = ThreadPoolExecutor(1, thread_name_prefix="slab-locker")

    def add(self, slab_id: int, fd: int, size_bytes: int) -> None:
        """Map a slab, and begin to page-lock it. The descriptor may be closed afterwards.

        Raises:
            SlabError: The slab is already mapped, or its size is out of range.
            OSError: The system refuses the mapping.
        """
        if slab_id in self._slabs:
            raise SlabError("slab", slab_id, "one that is not mapped yet")
        if not 0 < size_bytes < _LARGEST_BYTES:
            raise SlabError("size_bytes", size_bytes, f"1…{_LARGEST_BYTES - 1}")
        memory = map_shared(fd, size_bytes)
        slab = _MappedSlab(size_bytes, memory.ctypes.data, memory.base, memory)
        self._slabs[slab_id] = slab
        if self._device_index is not None:
            slab.locking = self._locker.submit(self._lock, slab_id, slab)

    def find_memory(self, slab_id: int) -> NDArray[np.uint8]:
        """The memory of a slab, which stays mapped as long as there are views of it.

        Raises:
            SlabError: The slab is not mapped.
        """
        memory = self._find(slab_id).memory
        if memory is None:
            raise SlabError("slab", slab_id, "one that is not being removed")
        return memory

    def is_locked(self, slab_id: int) -> bool:
        """Whether a slab is page-locked.

        Raises:
            SlabError: The slab is not mapped.
        """
        return self._find(slab_id).locked

    def remove(self, slab_id: int) -> None:
        """Unlock and unmap a slab. Afterwards the engine has no reference to its memory.

        Raises:
            SlabError: The slab is not mapped, or a matrix in it is in use, so that it stays.
            DeviceFailure: CUDA refuses to unlock it; it stays mapped.
        """
        slab = self._find(slab_id)
        if slab.memory is None or not _let_go(slab):
            raise SlabError("slab", slab_id, "one in which no product has a matrix")
        self._unlock(slab)
        del self._slabs[slab_id]

    def drop(self, slab_id: int) -> None:
        """Unmap a slab, and tell the service.

        The thread of a product that was just answered may still use it for a moment. If it stays in
        use, the process ends, and so gives back the memory that the service waits for.

        Raises:
            DeviceFailure: CUDA refuses to unlock it.
        """
        for _ in range(_REMOVAL_TRIES):
            try:
                self.remove(slab_id)
            except SlabError:
                time.sleep(_PAUSE_SECONDS)
            else:
                self._send({"type": "dropped", "slab": slab_id})
                return
        logger.error("slab %d is still in use: this process ends, and lets go of it", slab_id)
        os._exit(1)

    def close(self) -> None:
        """Unlock all slabs; no product may be running. Remaining matrices stay valid."""
        for slab in self._slabs.values():
            self._unlock(slab)
        self._slabs.clear()
        self._locker.shutdown()

    def _find(self, slab_id: int) -> _MappedSlab:
        slab = self._slabs.get(slab_id)
        if slab is None:
            raise SlabError("slab", slab_id, f"one that is mapped: {sorted(self._slabs)}")
        return slab

    def _lock(self, slab_id: int, slab: _MappedSlab) -> None:
        """Lock a slab, in the locker's thread. Huge pages are locked in a twentieth of the time."""
        for begin, end in cut_range(slab.address, slab.size_bytes):
            if slab.leaving:
                return
            if not collapse_range(begin, end):
                break
        try:
            lock_region(slab.address, slab.size_bytes, device_index=self._device_index)
        except DeviceFailure as error:
            logger.warning("matrices in slab %d are staged: %s", slab_id, error)
            return
        slab.locked = True
        self._send({"type": "locked", "slab": slab_id})

    def _unlock(self, slab: _MappedSlab) -> None:
        slab.leaving = True
        if slab.locking is not None and not slab.locking.cancel():
            slab.locking.result()
        if slab.locked:
            unlock_region(slab.address, slab.size_bytes, device_index=self._device_index)
            slab.locked = False


def _let_go(slab: _MappedSlab) -> bool:
    """Drop the reference to a slab's memory; keep it and return False while a matrix uses it."""
    for collect in (False, True):
        if collect:  # an error's traceback may keep a matrix in a cycle
            gc.collect()
        alive = weakref.ref(slab.memory)
        slab.memory = None
        slab.memory = alive()
        if slab.memory is None:
            return True
    return False
