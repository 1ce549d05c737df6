"""What a service has accepted, and what became of it: nothing lost, done twice, or damaged."""

import threading
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.server import decode_npy

Array = NDArray[Any]

SETTLE_SECONDS = 120.0
"""A job that has not ended after this, with no fault about, is lost."""

LEAVE_SECONDS = 20.0
"""By then, nothing is left of what a caller that has left was sending or fetching."""


@dataclass(slots=True)
class Outcome:
    """What was found of one fault.

    Attributes:
        accepted: Jobs and matrices that were accepted while it lasted.
        lost: Those of them that nobody knows any more, or that never end.
        doubled: Jobs and matrices that nobody asked for.
        damaged: Wrong bytes, in an answer or in a file.
        unexplained: Answers that say neither success nor why not, and failures that the fault does
            not explain.
        notes: Each of these in words.
        seconds: From the fault's end to a product that was asked for after it.
    """

    accepted: int = 0
    lost: int = 0
    doubled: int = 0
    damaged: int = 0
    unexplained: int = 0
    failed: int = 0
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def note(self, what, words):
        """Count one thing that must not be."""
        setattr(self, what, getattr(self, what) + 1)
        self.notes.append(f"{what}: {words}")


class Ledger:
    """What was asked of a service, with the bytes that are right. Thread-safe while it is filled.

    Attributes:
        operands: The stored matrices that jobs multiply, by id.
        jobs: The accepted jobs of this round, by id, with their products.
        uploads: The matrices that were accepted in this round, by id.
    """

    def __init__(self, server):
        self.server = server
        self.operands = {}
        self.jobs = {}
        self.uploads = {}
        self.outcome = Outcome()
        self._ended = set()
        self._lock = threading.Lock()

    def add_operand(self, matrix):
        matrix_id = self.server.upload(matrix)
        self.operands[matrix_id] = matrix
        return matrix_id

    def begin(self):
        """A round begins: what the last one has left is removed."""
        for matrix_id in (*self.uploads, *self._list_results()):
            answer = self.server.client.delete(f"/v1/matrices/{matrix_id}")
            assert answer.status_code in (204, 404), answer.text
        self._ended |= set(self.jobs)
        self.jobs.clear()
        self.uploads.clear()
        self.outcome = Outcome()

    def add_job(self, job_id, product):
        with self._lock:
            self.jobs[job_id] = product
            self.outcome.accepted += 1

    def add_upload(self, matrix_id, matrix):
        with self._lock:
            self.uploads[matrix_id] = matrix
            self.outcome.accepted += 1

    def note(self, what, words):
        """Count one thing that must not be."""
        with self._lock:
            self.outcome.note(what, words)

    def settle(self, reasons):
        """Wait until all jobs have ended, for some by these reasons; look at all that is stored."""
        reasons |= {"operand"} if reasons else set()  # those that wait for their results
        results = {}
        end = time.monotonic() + SETTLE_SECONDS
        for job_id, product in self.jobs.items():
            job = self._await_end(job_id, end)
            if job is None:
                self.note("lost", f"job {job_id}")
            elif job["state"] == "succeeded":
                results[job["result"]] = product
                self._compare(f"/v1/jobs/{job_id}/result", product)
            elif job["state"] == "failed" and job["error"]["kind"] in reasons:
                self.outcome.failed += 1
            else:
                self.note("unexplained", f"job {job_id} is {job['state']}: {job['error']}")
        self._check_jobs()
        self._check_matrices({**self.operands, **self.uploads, **results})
        return self.outcome

    def _await_end(self, job_id, end):
        while (left := end - time.monotonic()) > 0:
            path = f"/v1/jobs/{job_id}?wait_seconds={min(30.0, left):.1f}"
            answer = self.server.client.get(path)
            if answer.status_code == 404:
                return None
            job = answer.json()
            if answer.status_code == 200 and job["state"] not in ("queued", "running"):
                return job
        return None

    def _check_jobs(self):
        known = self._ended | set(self.jobs)
        for job in self.server.list_all("jobs"):
            if job["id"] not in known:
                self.note("doubled", f"job {job['id']}, which nobody was told of")

    def _check_matrices(self, expected):
        """Compare all that is stored, as it is listed, answered and in the folder."""
        listed = {matrix["id"] for matrix in self.server.list_all("matrices")}
        for matrix_id in listed - set(expected):
            self.note("doubled", f"matrix {matrix_id}, which nobody was told of")
        for matrix_id, matrix in expected.items():
            if matrix_id not in listed:
                self.note("lost", f"matrix {matrix_id}")
                continue
            file = self.server.data_dir / "matrices" / f"{matrix_id}.npy"
            if not np.array_equal(np.load(file), matrix):
                self.note("damaged", f"{file}")
        for matrix_id, matrix in self.uploads.items():
            if matrix_id in listed:
                self._compare(f"/v1/matrices/{matrix_id}/data", matrix)
        for name in self._find_left({f"{name}.npy" for name in listed}):
            self.note("doubled", f"file {name}, which belongs to nothing")

    def _find_left(self, names):
        """Files that stay though they belong to nothing: those of callers who have left go soon."""
        end = time.monotonic() + LEAVE_SECONDS
        while (left := self.server.list_matrix_files() - names) and time.monotonic() < end:
            time.sleep(0.1)
        return left

    def _compare(self, path, matrix):
        answer = self.server.client.get(path)
        if answer.status_code != 200:
            self.note("lost", f"{path}: {answer.text}")
        elif not np.array_equal(decode_npy(answer.content), matrix):
            self.note("damaged", path)

    def _list_results(self):
        for job in self.server.list_all("jobs"):
            if job["id"] in self.jobs and job["result"] is not None:
                yield job["result"]
