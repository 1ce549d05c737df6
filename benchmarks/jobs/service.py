"""The service of a checkout, callers with keys, and their jobs from the POST to the end."""

import os
import queue
import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final, Literal, Unpack

import numpy as np

from benchmarks.common.operands import Matrix
from benchmarks.http.servers import Server, find_python, start_service
from benchmarks.jobs.trace import CALLERS, Ask
from wavetrim.client import Client, Expected, Job, JobOptions, JobStatus

FOLLOWERS: Final = 4
"""Threads that follow jobs to their end, and remove their results."""

_TICKS: Final = os.sysconf("SC_CLK_TCK")

Posted = tuple[Ask, float, Job]
"""A job, when it was to be posted, and the client's handle of it."""


@dataclass(frozen=True, slots=True)
class Done:
    """A job that has succeeded.

    Attributes:
        ask: The job.
        due: When it was to be posted, UTC seconds.
        expected: When it should end, as the service said when it accepted it.
        ended: The job when it had succeeded.
    """

    ask: Ask
    due: float
    expected: Expected | None
    ended: JobStatus

    def read_time(self, name: str) -> datetime:
        """A time of the job's document: "created_at" or "finished_at"."""
        return datetime.fromisoformat(self.ended.document[name])

    @property
    def seconds(self) -> float:
        """From when it was due until it had succeeded."""
        return self.read_time("finished_at").timestamp() - self.due


@dataclass(slots=True)
class Used:
    """CPU seconds of the service's process and of this one in a block, and its seconds."""

    service_seconds: float = 0.0
    client_seconds: float = 0.0
    seconds: float = 0.0


def draw_operand(ask: Ask) -> Matrix:
    """The matrix that is A and B of a job, the same for all jobs of a size and type."""
    drawn: Matrix = np.random.default_rng(0).random((ask.size, ask.size)).astype(ask.dtype)
    return drawn


@dataclass(slots=True, eq=False)
class Service:
    """A service that runs, and its callers.

    Attributes:
        policy: Name of its checkout.
        folder: Where its data is.
    """

    policy: str
    folder: Path
    _server: Server
    _clients: dict[str, Client]
    _operands: dict[Ask, str] = field(default_factory=dict)

    @classmethod
    def start(cls, policy: str, checkout: Path, folder: Path) -> "Service":
        """Start the service of a checkout, with a key for each caller."""
        folder.mkdir(parents=True)
        server, _ = start_service(folder, checkout)
        data, python = str(folder / "data"), find_python(checkout)
        host, port = server.address
        clients = {}
        for caller in CALLERS:
            add = [python, "-m", "wavetrim", "keys", "add", caller, "--data-dir", data]
            made = subprocess.run(add, cwd=checkout, capture_output=True, text=True, check=True)
            clients[caller] = Client(f"http://{host}:{port}", api_key=made.stdout.strip())
        time.sleep(3.0)  # the service notices keys within two seconds
        return cls(policy, folder, server, clients)

    def stop(self) -> None:
        """End it."""
        self._server.stop()

    def store(self, asks: Sequence[Ask]) -> None:
        """Store the operands of jobs: for each caller one matrix of each size and type."""
        for ask in asks:
            name = Ask(ask.caller, ask.size, ask.dtype)
            if name not in self._operands:
                self._operands[name] = self._clients[ask.caller].put(draw_operand(ask)).id

    def post(self, ask: Ask, **options: Unpack[JobOptions]) -> Job:
        """Post a job; its result stays in memory, unless an option says otherwise."""
        options = {"storage": "memory", **options}
        return self._clients[ask.caller].submit(*self._name_operands(ask), **options)

    def post_list(self, asks: Sequence[Ask]) -> list[Posted]:
        """Post jobs of one caller as a list."""
        operands = [self._name_operands(ask) for ask in asks]
        due = time.time()
        jobs = self._clients[asks[0].caller].submit_many(operands, storage="memory")
        return [(ask, due, job) for ask, job in zip(asks, jobs, strict=True)]

    def _name_operands(self, ask: Ask) -> tuple[str, str]:
        matrix = self._operands[Ask(ask.caller, ask.size, ask.dtype)]
        return matrix, matrix

    def wait(self, ask: Ask, due: float, job: Job) -> Done:
        """Wait until a job has ended."""
        expected = job.expected
        return Done(ask, due, expected, job.wait())

    def remove(self, done: Done) -> None:
        """Remove a job's result."""
        self._clients[done.ask.caller].delete(str(done.ended.result))

    def follow(self, ask: Ask, due: float, job: Job) -> Done:
        """Wait until a job has ended, and remove its result."""
        self.remove(done := self.wait(ask, due, job))
        return done

    def follow_all(self, posted: Sequence[Posted]) -> list[Done]:
        """Follow jobs that are all posted."""
        with ThreadPoolExecutor(FOLLOWERS) as pool:
            return list(pool.map(lambda one: self.follow(*one), posted))

    def replay(self, trace: Sequence[Ask], rate: float) -> list[Done]:
        """Post a trace, each caller from a thread of its own, and follow its jobs.

        Args:
            trace: The jobs.
            rate: Jobs a second in the mean.
        """
        begun = time.time() + 0.1
        posted: queue.SimpleQueue[Posted | None] = queue.SimpleQueue()

        def post(caller: str) -> None:
            for ask in trace:
                if ask.caller == caller:
                    due = begun + ask.at / rate
                    time.sleep(max(0.0, due - time.time()))
                    posted.put((ask, due, self.post(ask)))

        def follow() -> list[Done]:
            return [self.follow(*one) for one in iter(posted.get, None)]

        with ThreadPoolExecutor(FOLLOWERS + len(CALLERS)) as pool:
            followers = [pool.submit(follow) for _ in range(FOLLOWERS)]
            try:
                list(pool.map(post, CALLERS))
            finally:
                for _ in followers:
                    posted.put(None)
            done = [one for of in followers for one in of.result()]
        return sorted(done, key=lambda one: one.due)

    def repeat(
        self, ask: Ask, count: int, clients: int, storage: Literal["disk", "memory"]
    ) -> list[Done]:
        """Clients post job after job, each once its last one has succeeded.

        Call `remove` for the results.
        """

        def run(_: int) -> Done:
            due = time.time()
            return self.wait(ask, due, self.post(ask, storage=storage))

        with ThreadPoolExecutor(clients) as pool:
            return list(pool.map(run, range(count)))

    @contextmanager
    def measuring(self) -> Iterator[Used]:
        """Measure what a block uses; known when it ends."""
        used, service, own = Used(), self._read_cpu(), time.process_time()
        began = time.perf_counter()
        yield used
        used.seconds = time.perf_counter() - began
        used.service_seconds = self._read_cpu() - service
        used.client_seconds = time.process_time() - own

    def _read_cpu(self) -> float:
        """CPU seconds of the service's process, without its engine's."""
        fields = Path(f"/proc/{self._server.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS
