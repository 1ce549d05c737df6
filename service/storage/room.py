"""Memory for matrices of one request: extents of the arena, or mapped files where that is full.

Both look alike to those who fill them, compute in them and send them: bytes in a view, a place that
the engine finds, and holders, the last of whom frees them.
"""

import mmap
import os
import threading
import uuid
from pathlib import Path
from typing import Protocol

from wavetrim.service.errors import StorageFull
from wavetrim.service.storage.arena.arena import Arena
from wavetrim.service.storage.arena.errors import ArenaFull
from wavetrim.service.storage.new_file import NO_ROOM, make_file
from wavetrim.service.threads import run_to_end


class Room(Protocol):
    """Memory that service and engine share; `Extent` is one, `MappedFile` the other.

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

    def hold(self, holder: str) -> "RoomHold":
        """Keep it until this hold is released, too."""


class RoomHold(Protocol):
    """A holder's claim on memory."""

    @property
    def extent(self) -> Room:
        """What is held."""

    def release(self) -> None:
        """Let go; a second call does nothing."""


class MappedFile:
    """A file that is there while somebody holds it. A start of the service removes what is left.

    Args:
        path: A file that does not exist yet.
        size_bytes: Its length.

    Raises:
        OSError: There is no room for it.
    """

    def __init__(self, path: Path, size_bytes: int) -> None:
        make_file(path, size_bytes)
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

    def hold(self, holder: str) -> "FileHold":
        """Keep it until this hold is released, too."""
        with self._lock:
            self._holders += 1
        return FileHold(self, holder)

    def let_go(self) -> None:
        """End a hold; the last one removes the file. Views that are left keep its bytes."""
        with self._lock:
            self._holders -= 1
            if self._holders:
                return
        self._path.unlink(missing_ok=True)


class FileHold:
    """One holder's claim on a mapped file."""

    def __init__(self, extent: MappedFile, holder: str) -> None:
        self.extent = extent
        self.holder = holder
        self._held = True

    def release(self) -> None:
        """Let go; a second call does nothing."""
        if self._held:
            self._held = False
            self.extent.let_go()


class Rooms:
    """Finds memory for matrices that nobody keeps.

    Args:
        arena: Where they lie; None where it is switched off.
        folder: Where files are made when the arena is full.
    """

    def __init__(self, arena: Arena | None, folder: Path) -> None:
        self._arena = arena
        self._folder = folder

    def try_obtain(self, size_bytes: int, holder: str) -> RoomHold | None:
        """Memory of the arena, at once, or None."""
        return None if self._arena is None else self._arena.try_obtain(size_bytes, holder)

    async def obtain(self, size_bytes: int, holder: str) -> RoomHold:
        """Memory of the arena, which may have to grow; else a mapped file.

        Raises:
            StorageFull: The disk has no room either.
        """
        if self._arena is not None:
            try:
                return await self._arena.obtain(size_bytes, holder)
            except ArenaFull:
                pass
        path = self._folder / f"{uuid.uuid4().hex}.part"
        file = await run_to_end(_make, path, size_bytes)
        return file.hold(holder)


def _make(path: Path, size_bytes: int) -> MappedFile:
    try:
        return MappedFile(path, size_bytes)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        limit = f"within what {path.parent} has room for ({error.strerror})"
        raise StorageFull("matrix size", size_bytes, limit) from error
