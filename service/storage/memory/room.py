"""Rooms: memory for matrices, in extents of the arena, or in mapped files if that is full.

All code that fills it, computes in it or sends it uses both alike: a view of the bytes, a place
that the engine finds, and holders, of whom the last frees it.
"""

import mmap
import os
import threading
import uuid
from pathlib import Path
from typing import Protocol

from wavetrim.service.storage.arena.arena import Arena
from wavetrim.service.storage.arena.errors import ArenaFull
from wavetrim.service.storage.disk.free_space import count_usable_bytes
from wavetrim.service.storage.disk.growth import find_next_length
from wavetrim.service.storage.disk.new_file import (
    explain,
    make_empty,
    make_file,
    open_for_writing,
    remove,
)
from wavetrim.service.storage.errors import StorageFull
from wavetrim.service.storage.memory.intake import Intake
from wavetrim.service.threads import run_to_end


class Room(Protocol):
    """Memory that service and engine share: an `Extent`, a `MappedFile` or a `Lease`.

    Attributes:
        place: Id of the arena's slab, or the path of the file.
        offset_bytes: Where it begins there.
        view: Its bytes, writable.
    """

    offset_bytes: int
    view: memoryview

    @property
    def place(self) -> int | str:
        """Id of the arena's slab, or the path of the file."""

    def hold(self, _holder: str, /) -> "RoomHold":
        """Keep the memory until this hold, too, is released."""


class RoomHold(Protocol):
    """A holder's claim on memory."""

    @property
    def extent(self) -> Room:
        """The memory that is held."""

    def release(self) -> None:
        """Let go; a second call does nothing."""


class MappedFile:
    """A mapped file that is removed when nobody holds it, or at the service's next start.

    Args:
        path: A file that does not exist yet.
        size_bytes: Its length.
        reserve_bytes: Bytes that must stay free on the file system.
        growing: Whether `make_more` takes its blocks on the disk, instead of all at once.

    Attributes:
        made_bytes: End of the blocks that are taken. On a full disk, touching memory after it kills
            the process.

    Raises:
        StorageFull: There is no room for it.
        OSError: It cannot be made.
    """

    def __init__(self, path: Path, size_bytes: int, *, reserve_bytes: int, growing: bool) -> None:
        _require_room(path, size_bytes, size_bytes, reserve_bytes)
        self._reserve_bytes = reserve_bytes
        if growing:
            make_empty(path, size_bytes)
        else:
            make_file(path, size_bytes)
        self.made_bytes = 0 if growing else size_bytes
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            self._map = mmap.mmap(file, size_bytes)
        except BaseException:
            path.unlink()
            raise
        finally:
            os.close(file)
        self._path = path
        self._lock = threading.Lock()
        self._holders = 0
        self.offset_bytes = 0
        self.view = memoryview(self._map)

    @property
    def place(self) -> str:
        """The path of the file."""
        return str(self._path)

    def make_more(self, end_bytes: int) -> None:
        """Take disk blocks up to `end_bytes`, and some more. Blocks the thread.

        Raises:
            StorageFull: The disk has no room for them.
        """
        size_bytes = len(self.view)
        length = find_next_length(self.made_bytes, end_bytes, size_bytes)
        _require_room(self._path, size_bytes, length - self.made_bytes, self._reserve_bytes)
        try:
            with open_for_writing(self._path) as file:
                os.posix_fallocate(file, self.made_bytes, length - self.made_bytes)
        except OSError as error:
            raise explain(error, self._path.parent, size_bytes) from error
        self.made_bytes = length

    def hold(self, _holder: str) -> "FileHold":
        """Keep the file until this hold, too, is released."""
        with self._lock:
            self._holders += 1
        return FileHold(self)

    def let_go(self) -> None:
        """End a hold; the last one removes the file. Remaining views keep its bytes."""
        with self._lock:
            self._holders -= 1
            if self._holders:
                return
        remove(self._path)


class FileHold:
    """One holder's claim on a mapped file."""

    def __init__(self, extent: MappedFile) -> None:
        self.extent = extent
        self._held = True

    def release(self) -> None:
        """Let go; a second call does nothing."""
        if self._held:
            self._held = False
            self.extent.let_go()


class Rooms:
    """Finds memory for matrices that are not stored.

    Args:
        arena: Where they lie; None if it is switched off.
        folder: Where files are made when the arena is full.
        reserve_bytes: Bytes that must stay free on the file system.
    """

    def __init__(self, arena: Arena | None, folder: Path, *, reserve_bytes: int = 0) -> None:
        self._arena = arena
        self._folder = folder
        self._reserve_bytes = reserve_bytes

    def try_obtain(self, size_bytes: int, holder: str) -> RoomHold | None:
        """Memory of the arena if it has some now, else None."""
        return None if self._arena is None else self._arena.try_obtain(size_bytes, holder)

    async def obtain(self, size_bytes: int, holder: str) -> RoomHold:
        """Memory of the arena, which may grow for it; if that is full, a mapped file.

        Raises:
            StorageFull: The disk has no room either.
        """
        if self._arena is not None:
            try:
                return await self._arena.obtain(size_bytes, holder)
            except ArenaFull:
                pass
        return await self._make(size_bytes, holder, growing=False)

    def open_intake(self, size_bytes: int, holder: str) -> Intake:
        """Memory of the arena for a matrix that is received."""
        return Intake(self._arena, size_bytes, holder)

    async def make_growing(self, size_bytes: int, holder: str) -> FileHold:
        """A mapped file whose blocks are taken as it is filled.

        Raises:
            StorageFull: The disk has no room for it.
        """
        return await self._make(size_bytes, holder, growing=True)

    async def _make(self, size_bytes: int, holder: str, *, growing: bool) -> FileHold:
        """Make a mapped file; if the caller is cancelled meanwhile, remove it again."""
        made: list[FileHold] = []

        def make() -> None:
            made.append(self._make_file(size_bytes, growing=growing).hold(holder))

        try:
            await run_to_end(make)
        except BaseException:
            for hold in made:
                hold.release()
            raise
        return made[0]

    def _make_file(self, size_bytes: int, *, growing: bool) -> MappedFile:
        path = self._folder / f"{uuid.uuid4().hex}.part"
        try:
            return MappedFile(path, size_bytes, reserve_bytes=self._reserve_bytes, growing=growing)
        except OSError as error:
            raise explain(error, self._folder, size_bytes) from error


def _require_room(path: Path, size_bytes: int, more_bytes: int, reserve_bytes: int) -> None:
    """Make sure that a file of `size_bytes` can take `more_bytes` of the disk."""
    usable = count_usable_bytes(path.parent, reserve_bytes)
    if more_bytes > usable:
        limit = (
            f"at most what it has and the {max(usable, 0)} bytes that {path.parent} has free "
            f"beside the reserve of {reserve_bytes}"
        )
        raise StorageFull("matrix size", size_bytes, limit)
