"""Mapped files: memory on disk, where the arena has none."""

import asyncio
import errno
import os
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from wavetrim.scheduler.execution.pages import map_shared
from wavetrim.service.storage.disk.files import allocate, compute_crc32, flush, open_regular, remove
from wavetrim.service.storage.memory.extent import Extent, Hold
from wavetrim.service.threads import finish


class MappedFile(Extent):
    """A mapped file that is removed when nobody holds it, unless it has got another name.

    Args:
        folder: Where it is made.
        size_bytes: Its length. It gets all of its space on the disk: on a full one, touching
            memory that has none kills the process.
        making: Around its making: counts it, and explains what goes wrong.

    Raises:
        StorageFull: There is no space for it.
        StorageFailed: It cannot be made.
    """

    __slots__ = ("_path",)

    def __init__(
        self,
        folder: Path,
        size_bytes: int,
        making: Callable[[int], AbstractContextManager[None]],
    ) -> None:
        self._path = folder / f"{uuid.uuid4().hex}.part"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            with making(size_bytes):
                file = os.open(self._path, flags, 0o600)
                try:
                    allocate(file, max(1, size_bytes))
                    view = map_shared(file, max(1, size_bytes)).data
                    view[:1] = bytes(1)  # the page of a header may wait for the disk: here
                finally:
                    os.close(file)
        except BaseException:
            remove(self._path)
            raise
        super().__init__(str(self._path), 0, view, self._remove)

    def finish(self, name: Path) -> int:
        """Make the file durable under another name, and keep it; returns its CRC-32.

        Raises:
            OSError: It cannot be written.
        """
        file = open_regular(self._path)
        try:
            crc32 = compute_crc32(file, len(self.view))
            os.fsync(file)
        finally:
            os.close(file)
        if crc32 is None:
            raise OSError(errno.EIO, f"it is not {len(self.view)} bytes long", str(self._path))
        self._path.rename(name)
        flush(name.parent)
        return crc32

    def _remove(self) -> None:
        """Remove the file; its mapping ends with the last view."""
        remove(self._path)
        self.view = memoryview(b"")


async def map_file(
    size_bytes: int,
    holder: str,
    *,
    folder: Path,
    making: Callable[[int], AbstractContextManager[None]],
) -> Hold:
    """Make a `MappedFile` in a thread; a caller who is cancelled meanwhile leaves none.

    Raises:
        StorageFull: There is no space for it.
        StorageFailed: It cannot be made.
    """
    made = asyncio.to_thread(MappedFile, folder, size_bytes, making)
    file = await finish(made, undo=lambda file: file.hold(holder).release())
    return file.hold(holder)
