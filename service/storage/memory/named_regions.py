"""Regions of POSIX shared memory that callers name: read and written as files, not mapped.

The owner of a region can shorten it at any time. A process that touches mapped memory past the new
end is killed (SIGBUS); one that reads or writes the file gets an error. The price is one copy.
"""

import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from wavetrim.service.errors import FieldProblem
from wavetrim.service.storage.errors import RegionNotFound

MOST_REGIONS: Final = 64
"""The most regions at once; chosen, as each takes a descriptor."""

_FOLDER: Final = Path("/dev/shm")  # noqa: S108 - where the C library keeps shared memory
_PIECE_BYTES: Final = 2**30
"""The most that one system call copies, below Linux's limit of 2 GiB."""


class Part(Protocol):
    """Some bytes of a region."""

    @property
    def region(self) -> str:
        """Name of the region."""

    @property
    def offset_bytes(self) -> int:
        """Where the bytes begin in the region."""

    @property
    def size_bytes(self) -> int:
        """How many there are."""


@dataclass(frozen=True, slots=True)
class NamedRegion:
    """A region that was registered.

    Attributes:
        name: How requests name it.
        key: Name of the shared memory, as for shm_open.
        offset_bytes: Where the region begins in the shared memory.
        size_bytes: Its length, as it was registered.
        file: Descriptor of the shared memory.
    """

    name: str
    key: str
    offset_bytes: int
    size_bytes: int
    file: int


class NamedRegions:
    """All registered regions. Thread-safe.

    Args:
        prefix: Prefix of the names of shared memory; None if none may be registered.
    """

    def __init__(self, prefix: str | None) -> None:
        self._prefix = prefix
        self._regions: dict[str, NamedRegion] = {}
        self._lock = threading.Lock()

    def register(self, name: str, key: str, *, offset_bytes: int, size_bytes: int) -> None:
        """Register a region of existing shared memory.

        Raises:
            FieldProblem: The name is taken, the key lacks the prefix, or the shared memory does not
                exist, is no plain file, or is too short.
        """
        if self._prefix is None:
            limit = "left out: the service takes none (WAVETRIM_V2_SHARED_MEMORY)"
            raise FieldProblem("key", key, limit)
        if not name:
            raise FieldProblem("name", name, "a name")
        file_name = key.removeprefix("/")
        wanted = self._prefix.removeprefix("/")
        if not file_name.startswith(wanted) or "/" in file_name or "\0" in file_name:
            limit = f"a name without slashes that begins with /{wanted} (WAVETRIM_V2_SHARED_MEMORY)"
            raise FieldProblem("key", key, limit)
        with self._lock:
            if name in self._regions:
                raise FieldProblem("name", name, "one that is not registered; unregister it first")
            if len(self._regions) >= MOST_REGIONS:
                limit = f"at most {MOST_REGIONS}; unregister others first"
                raise FieldProblem("regions", MOST_REGIONS + 1, limit)
            region = NamedRegion(name, key, offset_bytes, size_bytes, self._open(key, file_name))
            try:
                _check_end(region, offset_bytes + size_bytes, "byte_size", size_bytes)
            except BaseException:
                os.close(region.file)
                raise
            self._regions[name] = region

    def unregister(self, name: str | None = None) -> None:
        """Forget a region, or all of them; a name that is not registered is no error."""
        with self._lock:
            names = [name] if name is not None else list(self._regions)
            for one in names:
                region = self._regions.pop(one, None)
                if region is not None:
                    os.close(region.file)

    def get(self, name: str) -> NamedRegion:
        """The region of this name.

        Raises:
            RegionNotFound: There is none.
        """
        region = self._regions.get(name)
        if region is None:
            raise RegionNotFound(name)
        return region

    def list(self) -> tuple[NamedRegion, ...]:
        """All of them, in the order in which they were registered."""
        return tuple(self._regions.values())

    def check(self, part: Part) -> None:
        """Make sure that bytes are within a region and its shared memory.

        Raises:
            RegionNotFound: There is no such region.
            FieldProblem: They are not, or the memory was shortened.
        """
        with self._use(part):
            pass

    def read_into(self, part: Part, view: memoryview) -> None:
        """Copy bytes of a region into a view of their length. Blocks.

        Raises:
            RegionNotFound: There is no such region.
            FieldProblem: They are not within it, or the memory was shortened.
        """
        with self._use(part) as (file, begin):
            done = 0
            while done < len(view):
                count = os.preadv(file, [view[done : done + _PIECE_BYTES]], begin + done)
                if not count:
                    raise _describe_cut(part, done)
                done += count

    def write_from(self, part: Part, view: memoryview) -> None:
        """Copy a view into a region. Blocks.

        Raises:
            RegionNotFound: There is no such region.
            FieldProblem: It is too small, or the memory was shortened.
        """
        with self._use(part) as (file, begin):
            done = 0
            while done < len(view):
                try:
                    done += os.pwrite(file, view[done : done + _PIECE_BYTES], begin + done)
                except OSError as error:
                    limit = f"memory that the system has ({error.strerror})"
                    raise FieldProblem("shared_memory_region", part.region, limit) from error

    def _open(self, key: str, file_name: str) -> int:
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        try:
            file = os.open(_FOLDER / file_name, flags)
        except OSError as error:
            limit = f"shared memory that the service may open ({error.strerror})"
            raise FieldProblem("key", key, limit) from error
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise FieldProblem("key", key, "shared memory, and no other kind of file")
        return file

    @contextmanager
    def _use(self, part: Part) -> Iterator[tuple[int, int]]:
        """A descriptor of a part's memory, and where the part begins there."""
        with self._lock:
            region = self.get(part.region)
            if part.offset_bytes + part.size_bytes > region.size_bytes:
                limit = f"within the {region.size_bytes} bytes of region {region.name}"
                end = f"{part.size_bytes} bytes from byte {part.offset_bytes} on"
                raise FieldProblem("shared_memory_byte_size", end, limit)
            begin = region.offset_bytes + part.offset_bytes
            _check_end(region, begin + part.size_bytes, "shared_memory_byte_size", part.size_bytes)
            file = os.dup(region.file)  # `unregister` may close the region's own
        try:
            yield file, begin
        finally:
            os.close(file)


def _check_end(region: NamedRegion, end_bytes: int, field: str, value: int) -> None:
    found_bytes = os.fstat(region.file).st_size
    if end_bytes > found_bytes:
        limit = f"within the {found_bytes} bytes that {region.key} has now"
        raise FieldProblem(field, value, limit)


def _describe_cut(part: Part, done: int) -> FieldProblem:
    limit = f"memory that stays: it was cut off after {done} bytes of the tensor"
    return FieldProblem("shared_memory_region", part.region, limit)
