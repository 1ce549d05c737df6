"""What the matrices take of the disk is known at every moment, and is what their rows say."""

import random
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, event, func, select, update
from sqlalchemy.exc import SQLAlchemyError

from wavetrim.service.storage.database.database import open_database, reading
from wavetrim.service.storage.database.tables import matrices
from wavetrim.service.storage.errors import MatrixNotFound, StorageFull
from wavetrim.service.storage.matrices.matrices import MatrixStore
from wavetrim.service.storage.matrices.matrix import PendingMatrix

MOST_BYTES = 100_000


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Engine]:
    opened = open_database(f"sqlite:///{tmp_path / 'wavetrim.db'}")
    yield opened
    opened.dispose()


def open_store(database: Engine, folder: Path) -> MatrixStore:
    return MatrixStore(
        database, folder / "matrices", max_matrix_bytes=2**30, max_storage_bytes=MOST_BYTES
    )


def sum_rows(database: Engine) -> int:
    on_disk = matrices.c.place.is_distinct_from("memory")
    with reading(database) as connection:
        return connection.scalar(select(func.sum(matrices.c.size_bytes)).where(on_disk)) or 0


class FailingCommits:
    """A database some of whose commits fail: before they are made, or only their answer is lost."""

    def __init__(self, database: Engine) -> None:
        self.chance = random.Random(3)
        self.share = 0.0
        event.listen(database, "commit", self._fail)

    def _fail(self, connection: Connection) -> None:
        if self.chance.random() < self.share:
            if self.chance.random() < 0.5:
                driver = connection.connection.driver_connection
                assert isinstance(driver, sqlite3.Connection)
                driver.execute("COMMIT")
            raise SQLAlchemyError("the commit failed")


class Walk:
    """Does at random what may happen to matrices."""

    def __init__(self, database: Engine, folder: Path, seed: int) -> None:
        self.store = open_store(database, folder)
        self._database = database
        self._folder = folder
        self._chance = random.Random(seed)
        self._pending: list[PendingMatrix] = []
        self._stored: list[str] = []

    @property
    def expected_bytes(self) -> int:
        return sum_rows(self._database) + sum(pending.size_bytes for pending in self._pending)

    def step(self) -> None:
        begin, end = self._begin, self._end
        steps = [begin, begin, end, end, self._delete, self._expire, self._restart]
        self._chance.choices(steps, [4, 4, 4, 4, 4, 1, 1])[0]()

    def _begin(self) -> None:
        with suppress(StorageFull):
            self._pending.append(self.store.allocate(1, self._chance.randint(1, 9000), "int8"))

    def _end(self) -> None:
        if not self._pending:
            return
        pending = self._pending.pop(self._chance.randrange(len(self._pending)))
        how = self._chance.random()
        with suppress(SQLAlchemyError):
            if how < 0.3:
                self.store.discard(pending)
            elif how < 0.5:
                self.store.discard(pending)
                self._stored.append(self.store.publish_in_memory(pending).id)
            else:
                self._stored.append(self.store.publish(pending).id)

    def _delete(self) -> None:
        if self._stored:
            name = self._stored.pop(self._chance.randrange(len(self._stored)))
            with suppress(SQLAlchemyError, MatrixNotFound):
                self.store.delete(name)

    def _expire(self) -> None:
        old = update(matrices).where(matrices.c.id.in_(self._stored[::2]))
        with suppress(SQLAlchemyError):
            with self._database.begin() as connection:
                connection.execute(old.values(created_at=time.time() - 100))
            self.store.expire(50, start=0.0)

    def _restart(self) -> None:
        for pending in self._pending:
            self.store.discard(pending)
        self._pending = []
        self.store = open_store(self._database, self._folder)
        with suppress(SQLAlchemyError):
            self.store.sweep()


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_whatever_happens_the_count_is_the_sum_of_the_rows(
    database: Engine, tmp_path: Path, share: float
) -> None:
    failing = FailingCommits(database)
    walk = Walk(database, tmp_path, seed=11)
    failing.share = share
    for _ in range(600):
        walk.step()
        assert walk.store.count_stored_bytes() == walk.expected_bytes


def test_matrices_that_come_and_go_at_once_are_all_counted(
    database: Engine, tmp_path: Path
) -> None:
    store = open_store(database, tmp_path)
    stopping = threading.Event()

    def count_anew() -> None:
        while not stopping.is_set():
            store._room.doubt()  # the rows are summed while they change
            assert 0 <= store.count_stored_bytes() <= MOST_BYTES

    def come_and_go(seed: int) -> None:
        chance = random.Random(seed)
        mine: list[str] = []
        for _ in range(60):
            with suppress(StorageFull):
                mine.append(store.publish(store.allocate(1, chance.randint(1, 5000), "int8")).id)
            if mine and chance.random() < 0.5:
                store.delete(mine.pop())

    counting = threading.Thread(target=count_anew)
    threads = [threading.Thread(target=come_and_go, args=(seed,)) for seed in range(4)]
    for thread in (counting, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    stopping.set()
    counting.join()
    assert store.count_stored_bytes() == sum_rows(database)


def test_the_rows_are_summed_once_however_many_matrices_come(
    database: Engine, tmp_path: Path
) -> None:
    store = open_store(database, tmp_path)
    sums: list[str] = []

    def note(*arguments: object) -> None:
        if "sum(" in str(arguments[2]).lower():
            sums.append(str(arguments[2]))

    event.listen(database, "before_cursor_execute", note)
    ids = [store.publish(store.allocate(1, 100, "int8")).id for _ in range(20)]
    for matrix_id in ids:
        store.delete(matrix_id)
    assert store.count_stored_bytes() == 0
    assert len(sums) == 1
