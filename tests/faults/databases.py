"""The database: locked, restarted, and restored from an older copy."""

import shutil
import sqlite3
import time
from contextlib import closing

import numpy as np

from tests.faults.fault import Fault
from tests.postgres import running_postgres
from tests.server import RunningServer


class LockedDatabase(Fault):
    """Another process has SQLite's lock, for some seconds at most. Writers wait for 10 s."""

    def __init__(self, seconds):
        self.told = f"another process holds the database's lock for up to {seconds:g} s"
        self._seconds = seconds

    def strike(self, chance):
        path = self.server.data_dir / "wavetrim.db"
        with closing(sqlite3.connect(path, isolation_level=None, timeout=30)) as other:
            other.execute("BEGIN EXCLUSIVE")
            time.sleep(chance.uniform(self._seconds / 2, self._seconds))
            other.execute("ROLLBACK")


class RestartedDatabase(Fault):
    """PostgreSQL stops, in one of its ways, and starts again."""

    needs = "postgresql"
    told = "PostgreSQL is stopped, in good order or at once, and started again"

    def start(self, folder, stack):
        self._postgres = stack.enter_context(running_postgres())
        return RunningServer(folder / "data", database_url=self._postgres.url)

    def strike(self, chance):
        self._postgres.stop(mode=chance.choice(("fast", "immediate")))
        time.sleep(chance.uniform(0, 1))
        self._postgres.start()


class RestoredDatabase(Fault):
    """The service is killed, and an older copy takes the database's place."""

    told = "the service is killed and its database restored from an older copy"
    reasons = frozenset({"storage"})

    def strike(self, chance):
        """Copy and restore it, as the documents say; what came between is unknown from then on."""
        folder = self.server.data_dir
        copied = folder.parent / "copy.db"
        with (
            closing(sqlite3.connect(folder / "wavetrim.db")) as database,
            closing(sqlite3.connect(copied)) as copy,
        ):
            database.backup(copy)
        time.sleep(chance.uniform(0, 0.5))
        self.server.kill()
        for name in ("wavetrim.db", "wavetrim.db-wal", "wavetrim.db-shm"):
            (folder / name).unlink(missing_ok=True)
        shutil.copy(copied, folder / "wavetrim.db")
        ended = time.monotonic()
        self.server.restart()
        return ended

    def amend(self):
        """What the copy does not know must be whole in the folder of lost files."""
        ledger, client = self.ledger, self.server.client
        for job_id in list(ledger.jobs):
            if client.get(f"/v1/jobs/{job_id}").status_code == 404:
                del ledger.jobs[job_id]
        for matrix_id in list(ledger.uploads):
            if client.get(f"/v1/matrices/{matrix_id}").status_code == 404:
                lost = self.server.data_dir / "lost" / f"{matrix_id}.npy"
                if not lost.exists():
                    ledger.note("lost", f"matrix {matrix_id}: neither known nor in lost/")
                elif not np.array_equal(np.load(lost), ledger.uploads[matrix_id]):
                    ledger.note("damaged", str(lost))
                del ledger.uploads[matrix_id]
