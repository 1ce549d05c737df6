"""Mapped files: memory on disk, where the arena has none."""

import os
from pathlib import Path

from wavetrim.scheduler.execution.pages import map_shared
from wavetrim.service.storage.disk.checksum import read_crc32
from wavetrim.service.storage.disk.files import (
    THIS_FILE,
    Extending,
    find_next_length,
    flush,
    remove,
)
from wavetrim.service.storage.memory.extent import Extent, Hold
from wavetrim.service.threads import run_to_end


class MappedFile(Extent):
    """A mapped file that is removed when nobody holds it, unless it has got another name.

    Args:
        path: A file that does not exist yet.
        size_bytes: Its length.
        extending: Takes space on the disk for a file of a length, to which it grows in the block,
            and explains what goes wrong there.
        growing: Whether `make_more` takes its blocks on the disk, instead of all at once.

    Attributes:
        made_bytes: End of the blocks that are taken. On a full disk, touching memory after it kills
            the process.

    Raises:
        StorageFull: There is no space for it.
        StorageFailed: It cannot be made.
    """

    __slots__ = ("_extending", "_path", "made_bytes")

    def __init__(self, path: Path, size_bytes: int, *, extending: Extending, growing: bool) -> None:
        self._path = path
        self._extending = extending
        self.made_bytes = 0
        try:
            with extending(0):
                flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                file = os.open(path, flags, 0o600)
                try:
                    os.ftruncate(file, size_bytes)
                    view = map_shared(file, size_bytes).data
                finally:
                    os.close(file)
            super().__init__(str(path), 0, view, self._remove)
            if not growing:
                self.make_more(size_bytes)
        except BaseException:
            remove(path)
            raise

    def make_more(self, end_bytes: int) -> None:
        """Take disk blocks up to `end_bytes`, and some more. Blocks the thread.

        Raises:
            StorageFull: The disk has no space for them.
            StorageFailed: They cannot be taken.
        """
        length = find_next_length(self.made_bytes, end_bytes, len(self.view))
        with self._extending(length):
            # It is opened anew each time: a descriptor is scarcer than this is slow.
            file = os.open(self._path, os.O_WRONLY | THIS_FILE)
            try:
                os.posix_fallocate(file, self.made_bytes, length - self.made_bytes)
            finally:
                os.close(file)
        self.made_bytes = length

    def write(self, begin: int, content: memoryview) -> None:
        """Copy bytes to an offset of the file. Blocks the thread."""
        end = begin + len(content)
        if end > self.made_bytes:
            self.make_more(end)
        self.view[begin:end] = content

    def finish(self, name: Path) -> int:
        """Make the file durable under another name, and keep it; returns its CRC-32.

        Raises:
            OSError: It cannot be written.
        """
        crc32 = read_crc32(self._path, len(self.view))
        flush(self._path)
        self._path.rename(name)
        flush(name.parent)
        return crc32

    def _remove(self) -> None:
        """Remove the file; its mapping ends with the last view."""
        remove(self._path)
        self.view = memoryview(b"")


async def map_file(
    path: Path, size_bytes: int, holder: str, *, extending: Extending, growing: bool
) -> Hold:
    """Make a `MappedFile` in a thread; a caller who is cancelled meanwhile leaves none.

    Raises:
        StorageFull: There is no space for it.
        StorageFailed: It cannot be made.
    """
    made: list[Hold] = []

    def make() -> None:
        file = MappedFile(path, size_bytes, extending=extending, growing=growing)
        made.append(file.hold(holder))

    try:
        await run_to_end(make)
    except BaseException:
        for hold in made:
            hold.release()
        raise
    return made[0]
