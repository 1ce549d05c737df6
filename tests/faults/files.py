"""Files of the data folder that are changed, cut short or replaced while jobs need them."""

import os

import numpy as np

from tests.faults.fault import Fault
from tests.faults.load import SIZES
from tests.server import encode_npy


def change(path, _foreign):
    """Write other elements over those that are there."""
    with path.open("r+b") as file:
        file.seek(-(path.stat().st_size // 2), os.SEEK_END)
        file.write(b"\7" * 1000)


def cut_short(path, _foreign):
    """Leave a third of it."""
    os.truncate(path, path.stat().st_size // 3)


def replace_by_link(path, foreign):
    """Have it lead to another matrix, outside the folder."""
    path.unlink()
    path.symlink_to(foreign)


def replace_by_pipe(path, _foreign):
    """Put a pipe in its place: opening it waits for a writer."""
    path.unlink()
    os.mkfifo(path)


def replace_by_file(path, foreign):
    """Put another matrix of the same length in its place."""
    other = path.with_suffix(".other")
    other.write_bytes(foreign.read_bytes())
    other.rename(path)


CHANGES = {
    "changed": change,
    "cut short": cut_short,
    "replaced by a link": replace_by_link,
    "replaced by a pipe": replace_by_pipe,
    "replaced by another file": replace_by_file,
}


class ChangedFiles(Fault):
    """An operand's file is changed under jobs that use it.

    It is one of `CHANGES`. If mapped, the engine reads the file itself, not a copy in the arena.
    """

    reasons = frozenset({"storage"})

    def __init__(self, how, *, mapped=False):
        self.told = f"an operand's file is {how}{', which the engine reads' if mapped else ''}"
        self.settings = {"arena_bytes": 0 if mapped else "256MiB"}
        self._change = CHANGES[how]

    def prepare(self):
        size = SIZES[-1]
        matrix = np.random.default_rng().integers(-8, 8, (size, size))
        self._foreign = self.server.data_dir.parent / "foreign.npy"
        self._foreign.write_bytes(encode_npy(matrix + 1))
        self._stamp = self._foreign.stat().st_mtime_ns
        self._operand = self.server.upload(matrix)
        wide = matrix.astype(np.float64)
        product = (wide @ wide).astype(np.int64)
        for _ in range(4):
            self.ledger.add_job(self.server.post_job(self._operand, self._operand), product)

    def strike(self, chance):
        path = self.server.data_dir / "matrices" / f"{self._operand}.npy"
        self._change(path, self._foreign)

    def amend(self):
        """Remove the operand, when the jobs have ended; nothing else was read or written."""
        for job_id in self.ledger.jobs:
            self.server.client.get(f"/v1/jobs/{job_id}?wait_seconds=60")
        path = f"/v1/matrices/{self._operand}"
        self.server.client.delete(path).raise_for_status()
        if self._foreign.stat().st_mtime_ns != self._stamp:
            self.ledger.note("damaged", f"{self._foreign}, which is not the service's")
