"""How many bytes of matrices each owner has, and whether its quota lets it store more."""

import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from sqlalchemy import Engine, func, select

from wavetrim.service.storage.database.database import reading
from wavetrim.service.storage.database.ownership import is_owned
from wavetrim.service.storage.database.tables import api_keys, matrices
from wavetrim.service.storage.errors import StoredQuotaReached
from wavetrim.service.storage.matrices.matrix import Matrix
from wavetrim.service.threads import run_to_end


class StoredBytes:
    """Counts the bytes of owners' matrices, including those that are being stored. Thread-safe.

    Args:
        database: Has the matrices, and the quotas of keys.
    """

    def __init__(self, database: Engine) -> None:
        self._database = database
        self._coming: dict[object, tuple[str, int]] = {}
        self._one_at_a_time = threading.Lock()
        self._sent = Counter[Matrix]()
        self._removed: set[str] = set()
        self._sending_lock = threading.Lock()

    @contextmanager
    def sending(self, matrix: Matrix) -> Iterator[None]:
        """Have a matrix count until the block has sent it, even when it is removed meanwhile."""
        with self._sending_lock:
            self._sent[matrix] += 1
        try:
            yield
        finally:
            with self._sending_lock:
                self._sent[matrix] -= 1
                if not self._sent[matrix]:
                    del self._sent[matrix]
                    self._removed.discard(matrix.id)

    def note_removed(self, matrix_id: str) -> None:
        """A matrix is gone, but whoever is sending it keeps its memory or its file."""
        with self._sending_lock:
            if any(matrix.id == matrix_id for matrix in self._sent):
                self._removed.add(matrix_id)

    @asynccontextmanager
    async def reserve(self, owner: str, size_bytes: int) -> AsyncIterator[None]:
        """Takes room for a matrix in its owner's quota while the block stores it.

        Raises:
            StoredQuotaReached: The key's quota has less left.
        """
        coming = object()
        try:
            if owner:
                await run_to_end(self._reserve, coming, owner, size_bytes)
            yield
        finally:
            self._coming.pop(coming, None)

    def count(self, owner: str) -> int:
        """Bytes of an owner's matrices, on disk and in memory, also of removed ones in use."""
        # Those being stored come first: a matrix that is stored meanwhile counts twice, not never.
        coming = sum(size for name, size in list(self._coming.values()) if name == owner)
        size = func.coalesce(func.sum(matrices.c.size_bytes), 0)
        with reading(self._database) as connection:
            stored = connection.scalar(select(size).where(is_owned(matrices, owner)))
        with self._sending_lock:
            sent = [one for one in self._sent if one.id in self._removed and one.owner == owner]
            removed = sum(one.size_bytes for one in sent)
        return int(stored or 0) + coming + removed

    def _reserve(self, coming: object, owner: str, size_bytes: int) -> None:
        wanted = select(api_keys.c.max_stored_bytes).where(api_keys.c.name == owner)
        with self._one_at_a_time:
            with reading(self._database) as connection:
                most = connection.scalar(wanted)
            if most is not None and (total := self.count(owner) + size_bytes) > most:
                raise StoredQuotaReached(total, most)
            self._coming[coming] = owner, size_bytes
