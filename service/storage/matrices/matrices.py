"""The store of matrices: bytes in memory, on disk, or both; and a row each in the database.

The row is added last. So a row always has a whole file, or the file's bytes in the database as well
(`disk/unsynced_files.py`). A file without a row was left by a crash, or its database was lost.
"""

import uuid
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Final

from sqlalchemy import Engine, bindparam, literal, select, tuple_

from wavetrim.kernels.last_used import LastUsed
from wavetrim.service.clock import read_clock
from wavetrim.service.cursor import decode_mark, encode_mark
from wavetrim.service.errors import BodyTooLarge
from wavetrim.service.storage.database.database import reading, split
from wavetrim.service.storage.database.shared_commits import SharedCommits
from wavetrim.service.storage.database.tables import is_owned, matrices
from wavetrim.service.storage.disk.disk_writer import DiskWriter
from wavetrim.service.storage.disk.files import remove
from wavetrim.service.storage.disk.unsynced_files import UnsyncedFiles
from wavetrim.service.storage.errors import MatrixNotFound
from wavetrim.service.storage.folder.lost_files import sweep_folder
from wavetrim.service.storage.matrices.matrix import FileChecks, Matrix
from wavetrim.service.storage.matrices.npy import Layout
from wavetrim.service.storage.matrices.rows import MatrixRows, read_row
from wavetrim.service.storage.matrices.stored_bytes import StoredBytes
from wavetrim.service.storage.matrices.use import find_users, remove_matrix, remove_unused
from wavetrim.service.storage.memory.arena import Arena, ArenaFull
from wavetrim.service.storage.memory.extent import Hold, MatrixCache
from wavetrim.service.threads import run_to_end

_KNOWN: Final = 4096
"""Matrices whose rows are remembered; chosen, to bound memory."""

_NEWEST_FIRST: Final = matrices.c.created_at.desc(), matrices.c.id.desc()

_BY_ID: Final = select(matrices).where(matrices.c.id.in_(bindparam("ids", expanding=True)))
"""Built once: building it takes as long as running it."""


class MatrixStore:
    """Stores, finds and removes matrices.

    Coroutines are to be used from one event loop, everything else from any thread.

    Args:
        database: Has the rows.
        folder: Has the files; made if it is missing. The folder `lost` beside it has files without
            rows.
        max_matrix_bytes: The largest .npy file that is stored.
        max_storage_bytes: The most that all files may take together.
        commits: Adds the rows.
        arena: Where matrices lie in memory; None for files only.

    Attributes:
        cache: The matrices that lie in the arena.
        writer: Writes from there to files.
        unsynced: Those that wait for a sync.
        checks: Checks whether files are as they were stored.
        stored: How many bytes there are, on disk and of each owner.
        rows: Adds their rows.
        on_removed: Each is called with the id of a removed matrix, from any thread.
    """

    def __init__(
        self,
        database: Engine,
        folder: Path,
        *,
        max_matrix_bytes: int,
        max_storage_bytes: int,
        commits: SharedCommits | None = None,
        arena: Arena | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.database = database
        self.max_matrix_bytes = max_matrix_bytes
        self.commits = commits or SharedCommits(database)
        self.arena = arena or Arena(limit_bytes=0)
        self.writer = DiskWriter(self.commits)
        self.unsynced = UnsyncedFiles(database, self.commits, folder)
        self.cache = MatrixCache()
        self.arena.evict = self.cache.evict
        self._known = LastUsed[str, Matrix](_KNOWN)
        self.checks = FileChecks(database, on_damaged=self._known.drop)
        self.stored = StoredBytes(database, folder, max_storage_bytes=max_storage_bytes)
        self.rows = MatrixRows(database, self.commits, self.stored, self.unsynced)
        self.on_removed: list[Callable[[str], None]] = [
            self.cache.drop, self.checks.intact.drop, self._known.drop
        ]  # fmt: skip

    def find_size(self, layout: Layout) -> tuple[int, int]:
        """Where the elements of a new matrix would begin in its file, and the bytes of that.

        Raises:
            BodyTooLarge: It would be larger than a matrix may be.
        """
        offset_bytes = len(layout.format_header(stored=True))
        size_bytes = offset_bytes + layout.data_bytes
        if size_bytes > self.max_matrix_bytes:
            limit = f"at most {self.max_matrix_bytes} bytes (max_matrix_bytes)"
            raise BodyTooLarge("matrix size", size_bytes, limit)
        return offset_bytes, size_bytes

    def describe(self, layout: Layout, *, owner: str = "", on_disk: bool = True) -> Matrix:
        """A new matrix, or stack, that takes no memory and no file yet; raises as `find_size`."""
        offset_bytes, size_bytes = self.find_size(layout)
        name = uuid.uuid4().hex[:30]
        return Matrix(
            layout.rows, layout.columns, layout.dtype, layout.fortran_order, offset_bytes,
            layout.stack, id=name, size_bytes=size_bytes, path=self.folder / f"{name}.npy",
            owner=owner, on_disk=on_disk,
        )  # fmt: skip

    async def load(self, matrix: Matrix, holder: str) -> Hold | None:
        """A hold of a matrix in the arena, into which it is read if necessary.

        Returns:
            None if the arena has no memory for it.

        Raises:
            MatrixDamaged: Its file has changed since it was stored.
        """
        hold = self.cache.take(matrix.id, holder)
        if hold is not None or not matrix.on_disk:
            return hold
        try:
            hold = await self.arena.obtain(matrix.size_bytes, "storage")
        except ArenaFull:
            return None
        try:
            await run_to_end(self.checks.read, matrix, hold.extent.view)
        except BaseException:
            hold.release()
            raise
        self.cache.add(matrix.id, hold, on_disk=True)
        return hold

    def get(self, matrix_id: str, owner: str | None = None) -> Matrix:
        """The matrix with this id.

        Args:
            matrix_id: The id.
            owner: Whose it must be; None for anybody's.

        Raises:
            MatrixNotFound: There is none.
        """
        matrix = self.find([matrix_id], owner).get(matrix_id)
        if matrix is None:
            raise MatrixNotFound(matrix_id)
        return matrix

    async def recall(self, ids: Collection[str], owner: str | None = None) -> dict[str, Matrix]:
        """As `find`, from memory if all are remembered: one may have been removed meanwhile."""
        known = ((one, self._known.find(one)) for one in ids)
        found = {one: found for one, found in known if found and owner in (None, found.owner)}
        return found if len(found) == len(ids) else await run_to_end(self.find, ids, owner)

    def find(self, ids: Collection[str], owner: str | None = None) -> dict[str, Matrix]:
        """The matrices that exist and belong to an owner, by their ids.

        Args:
            ids: Their ids.
            owner: Whose they must be; None for anybody's.
        """
        found: dict[str, Matrix] = {}
        with reading(self.database) as connection:
            for some in split(list(ids)):
                for row in connection.execute(_BY_ID, {"ids": some}):
                    matrix = read_row(row, self.folder)
                    self.remember(matrix)
                    if owner in (None, matrix.owner):
                        found[row.id] = matrix
        return found

    def page(
        self, *, limit: int = 50, cursor: str | None = None, owner: str | None = None
    ) -> tuple[tuple[tuple[Matrix, tuple[str, ...]], ...], str | None]:
        """Reads some matrices, newest first.

        Args:
            limit: The most matrices to return.
            cursor: Where an earlier page ended.
            owner: Whose they are; None for everybody's.

        Returns:
            The matrices, each with the ids of the owner's unfinished jobs that use it, and the
            cursor of the next page (None after the last one). Matrices stored between two calls do
            not shift a page.

        Raises:
            CursorUnknown: The cursor was not made by this method.
        """
        wanted = select(matrices).where(is_owned(matrices, owner))
        if cursor is not None:
            mark = decode_mark(cursor, r"(\d{1,12}\.\d{1,12})/([A-Za-z0-9_-]{1,40})")
            last = tuple_(literal(float(mark[1])), literal(mark[2]))
            wanted = wanted.where(tuple_(matrices.c.created_at, matrices.c.id) < last)
        with reading(self.database) as connection:
            found = list(connection.execute(wanted.order_by(*_NEWEST_FIRST).limit(limit + 1)))
            shown = [read_row(row, self.folder) for row in found[:limit]]
            users = find_users(connection, [one.id for one in shown], owner)
        next_cursor = None
        if len(found) > limit:
            next_cursor = encode_mark(f"{shown[-1].created_at!r}/{shown[-1].id}")
        return tuple((one, tuple(users.get(one.id, ()))) for one in shown), next_cursor

    def delete(self, matrix_id: str, owner: str | None = None) -> None:
        """Removes a matrix. Whoever is reading its file can go on.

        Args:
            matrix_id: The matrix.
            owner: Whose it must be; None for anybody's.

        Raises:
            MatrixNotFound: There is none with this id.
            MatrixInUse: A queued or running job names it as an operand; jobs of another owner than
                the caller are not named.
        """
        remembered = self._known.find(matrix_id)
        durable = remembered is None or remembered.on_disk
        with self.stored.removing() as rows:
            remove_it = partial(remove_matrix, matrix_id=matrix_id, owner=owner)
            removed = self.commits.add(remove_it, durable=durable).result()
            if isinstance(removed, Exception):
                raise removed
            rows.append(removed)
        self._forget(matrix_id)

    def expire(self, ttl_seconds: float, *, start: float) -> list[str]:
        """Removes the matrices that nobody has used for a time.

        A matrix is used when it is stored, and by each job that names or makes it. Operands of an
        unfinished job are never removed.

        Args:
            ttl_seconds: How long; 0 keeps all.
            start: The time before which no age is counted (UTC seconds since the epoch).

        Returns:
            The ids of the removed matrices.
        """
        before = read_clock() - ttl_seconds
        if ttl_seconds == 0 or start >= before:
            return []
        removed: list[str] = []
        for batch in remove_unused(self.database, self.stored, before):
            for matrix_id in batch:
                self._forget(matrix_id)
            removed += batch
        return removed

    def sweep(self) -> None:
        """Clears up after an earlier run, as `sweep_folder` does, and restores unsynced files.

        To be called once, before anything is allocated and before any job runs again.
        """
        sweep_folder(self.database, self.folder)
        self.unsynced.start()
        self.stored.sum_anew()

    def close(self) -> None:
        """Write what is to be written, and let go of all memory. Blocks."""
        self.writer.close()
        self.unsynced.close()
        self.commits.close()
        self.cache.clear()

    def _forget(self, matrix_id: str) -> None:
        """The row is gone: remove everything else of the matrix."""
        for tell in self.on_removed:
            tell(matrix_id)
        remove(self.folder / f"{matrix_id}.npy")

    def remember(self, matrix: Matrix) -> None:
        """A matrix's row is there."""
        if matrix.damaged_at is None:
            self._known.keep(matrix.id, matrix)
