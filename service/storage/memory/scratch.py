"""Scratch memory: for bodies and products that are not stored."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from wavetrim.service.storage.arena.arena import Arena, ArenaFull
from wavetrim.service.storage.disk.disk_space import count_usable_bytes, refuse_disk
from wavetrim.service.storage.disk.new_file import explain
from wavetrim.service.storage.memory.extent import Hold
from wavetrim.service.storage.memory.intake import Intake
from wavetrim.service.storage.memory.mapped_file import map_file


class ScratchMemory:
    """Finds memory for matrices that are not stored: in the arena, or in files if that is full.

    Args:
        arena: Where they lie.
        folder: Where files are made when the arena is full.
        reserve_bytes: Bytes that must stay free on the file system.
    """

    def __init__(self, arena: Arena, folder: Path, *, reserve_bytes: int = 0) -> None:
        self._arena = arena
        self._folder = folder
        self._reserve_bytes = reserve_bytes

    async def obtain(self, size_bytes: int, holder: str) -> Hold:
        """Memory of the arena, which may grow for it; if that is full, a mapped file.

        Raises:
            StorageFull: The disk has no room either.
        """
        try:
            return await self._arena.obtain(size_bytes, holder)
        except ArenaFull:
            return await self._map(size_bytes, holder, growing=False)

    def open_intake(self, size_bytes: int, holder: str) -> Intake:
        """Memory for a matrix that is received: of the arena, or a mapped file that grows."""
        make_file = partial(self._map, size_bytes, holder, growing=True)
        return Intake(self._arena, size_bytes, holder, make_file=make_file)

    async def _map(self, size_bytes: int, holder: str, *, growing: bool) -> Hold:
        path = self._folder / f"{uuid.uuid4().hex}.part"
        extending = partial(self._extending, path, size_bytes)
        return await map_file(path, size_bytes, holder, extending=extending, growing=growing)

    @contextmanager
    def _extending(self, path: Path, size_bytes: int, length_bytes: int) -> Iterator[None]:
        """Make sure that a file can grow to a length."""
        try:
            made_bytes = path.stat().st_blocks * 512 if length_bytes else 0
            usable = count_usable_bytes(self._folder, self._reserve_bytes) + made_bytes
            if length_bytes > usable:
                raise refuse_disk(size_bytes, usable, self._folder, self._reserve_bytes)
            yield
        except OSError as error:
            raise explain(error, self._folder, size_bytes) from error
