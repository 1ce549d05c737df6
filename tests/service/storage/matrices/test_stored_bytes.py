"""What the matrices take of the disk is known at every moment, and is what their rows say."""

import random
import sqlite3
import time
from contextlib import suppress

from sqlalchemy import event, func, select, update
from sqlalchemy.exc import SQLAlchemyError

from tests.service.drafts import begin_draft, open_store, run
from wavetrim.service.storage.database.database import reading
from wavetrim.service.storage.database.tables import matrices
from wavetrim.service.storage.errors import MatrixNotFound, StorageFull
from wavetrim.service.storage.matrices.draft import Draft

MOST_BYTES = 100_000


def sum_rows(database, *wanted):
    with reading(database) as connection:
        return connection.scalar(select(func.sum(matrices.c.size_bytes)).where(*wanted)) or 0


class FailingCommits:
    """A database some of whose commits fail: before they are made, or only their answer is lost."""

    def __init__(self, database):
        self.chance = random.Random(3)
        self.share = 0.0
        event.listen(database, "commit", self._fail)

    def _fail(self, connection):
        if self.chance.random() < self.share:
            if self.chance.random() < 0.5:
                driver = connection.connection.driver_connection
                assert isinstance(driver, sqlite3.Connection)
                driver.execute("COMMIT")
            raise SQLAlchemyError("the commit failed")


class Walk:
    """Does at random what may happen to matrices."""

    def __init__(self, database, folder, seed):
        self.store = open_store(database, folder, max_storage_bytes=MOST_BYTES)
        self._database = database
        self._folder = folder
        self._chance = random.Random(seed)
        self._drafts: list[Draft] = []
        self._stored: list[str] = []

    def check(self):
        coming = [draft.matrix for draft in self._drafts]
        on_disk = sum_rows(self._database) + sum(one.size_bytes for one in coming)
        assert self.store.stored.count_on_disk() == on_disk
        hers = sum(one.size_bytes for one in coming if one.owner == "ada")
        hers += sum_rows(self._database, matrices.c.owner == "ada")
        assert self.store.stored.count_owned("ada") == hers

    def step(self):
        begin, end = self._begin, self._end
        steps = [begin, begin, end, end, self._delete, self._expire, self._restart]
        self._chance.choices(steps, [4, 4, 4, 4, 4, 1, 1])[0]()

    def _begin(self):
        with suppress(StorageFull):
            columns, owner = self._chance.randint(1, 9000), self._chance.choice(["", "ada"])
            self._drafts.append(begin_draft(self.store, 1, columns, "int8", owner=owner))

    def _end(self):
        if not self._drafts:
            return
        draft = self._drafts.pop(self._chance.randrange(len(self._drafts)))
        how = self._chance.random()
        with suppress(SQLAlchemyError):
            if how < 0.3:
                run(draft.discard())
            else:
                self._stored.append(run(draft.publish()).id)

    def _delete(self):
        if self._stored:
            name = self._stored.pop(self._chance.randrange(len(self._stored)))
            with suppress(SQLAlchemyError, MatrixNotFound):
                self.store.delete(name)

    def _expire(self):
        old = update(matrices).where(matrices.c.id.in_(self._stored[::2]))
        with suppress(SQLAlchemyError):
            with self._database.begin() as connection:
                connection.execute(old.values(created_at=time.time() - 100))
            self.store.expire(50, start=0.0)

    def _restart(self):
        for draft in self._drafts:
            run(draft.discard())
        self._drafts = []
        self.store = open_store(self._database, self._folder, max_storage_bytes=MOST_BYTES)
        with suppress(SQLAlchemyError):
            self.store.sweep()


def test_whatever_happens_the_counts_are_the_sums_of_the_rows(sqlite, tmp_path):
    failing = FailingCommits(sqlite)
    walk = Walk(sqlite, tmp_path, seed=11)
    failing.share = 0.2
    for _ in range(600):
        walk.step()
        walk.check()
