"""Mapped files: memory on disk, where the arena has none."""

import os
from pathlib import Path

from wavetrim.scheduler.execution.pages import map_shared
from wavetrim.service.storage.disk.checksum import read_crc32
from wavetrim.service.storage.disk.files import (
    THIS_FILE,
    Extending,
    flush,
    remove,
    write_whole,
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
        growing: Whether `write` takes its blocks on the disk, instead of all at once. On a full
            disk, touching memory that has none kills the process.

    Raises:
        StorageFull: There is no space for it.
        StorageFailed: It cannot be made.
    """

    __slots__ = ("_extending", "_path")

    def __init__(self, path: Path, size_bytes: int, *, extending: Extending, growing: bool) -> None:
        self._path = path
        self._extending = extending
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            with extending(0 if growing else size_bytes):
                file = os.open(path, flags, 0o600)
                try:
                    if growing:
                        os.ftruncate(file, size_bytes)
                    else:
                        os.posix_fallocate(file, 0, size_bytes)
                    view = map_shared(file, size_bytes).data
                finally:
                    os.close(file)
        except BaseException:
            remove(path)
            raise
        super().__init__(str(path), 0, view, self._remove)

    def write(self, begin: int, content: bytes | memoryview) -> None:
        """Copy bytes to an offset of the file, from its beginning to its end. Blocks the thread.

        Raises:
            StorageFull: The disk has no space for them.
            StorageFailed: They cannot be written.
        """
        with self._extending(begin + len(content)):
            # It is opened anew each time: a descriptor is scarcer than this is slow.
            file = os.open(self._path, os.O_WRONLY | THIS_FILE)
            try:
                write_whole(file, memoryview(content), begin)
            finally:
                os.close(file)

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
