"""The service of a checkout, callers with keys, and their jobs from the POST to the end."""

import json
import os
import queue
import resource
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from http.client import HTTPConnection
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.http.servers import Server, find_python, start_service
from benchmarks.jobs.trace import CALLERS, Ask

FOLLOWERS: Final = 4
"""Threads that follow jobs to their end, and remove their results."""

IDLE_SECONDS: Final = 2.0
"""Time after which an unused connection is closed; chosen."""

_WAIT: Final = "?wait_seconds=30"
_TICKS: Final = os.sysconf("SC_CLK_TCK")


Posted = tuple[Ask, float, dict[str, Any]]
"""A job, when it was to be posted, and its record when it was accepted."""


class JobsFailed(Exception):
    """A job did not succeed, or a call was refused; the message says which."""


@dataclass(frozen=True, slots=True)
class Done:
    """A job that has succeeded.

    Attributes:
        ask: The job.
        due: When it was to be posted, UTC seconds.
        accepted: Its record in the answer to its POST.
        ended: Its record when it had succeeded.
    """

    ask: Ask
    due: float
    accepted: dict[str, Any]
    ended: dict[str, Any]

    @property
    def seconds(self) -> float:
        """From when it was due until it had succeeded."""
        return read_time(self.ended["finished_at"]) - self.due


@dataclass(slots=True)
class Used:
    """CPU seconds of the service's process and of this one in a block, and its seconds."""

    service_seconds: float = 0.0
    client_seconds: float = 0.0
    seconds: float = 0.0


def draw_operand(ask: Ask) -> NDArray[Any]:
    """The matrix that is A and B of a job, the same for all jobs of a size and type."""
    drawn: NDArray[Any] = np.random.default_rng(0).random((ask.size, ask.size)).astype(ask.dtype)
    return drawn


def read_time(text: str) -> float:
    """A record's time, in UTC seconds."""
    return datetime.fromisoformat(text).timestamp()


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
    _keys: dict[str, str]
    _operands: dict[Ask, str] = field(default_factory=dict)
    _local: threading.local = field(default_factory=threading.local)

    @classmethod
    def start(cls, policy: str, checkout: Path, folder: Path) -> "Service":
        """Start the service of a checkout, with a key for each caller."""
        folder.mkdir(parents=True)
        server, _ = start_service(folder, checkout)
        data, python = str(folder / "data"), find_python(checkout)
        keys = {}
        for caller in CALLERS:
            add = [python, "-m", "wavetrim", "keys", "add", caller, "--data-dir", data]
            made = subprocess.run(add, cwd=checkout, capture_output=True, text=True, check=True)
            keys[caller] = made.stdout.strip()
        time.sleep(3.0)  # the service notices keys within two seconds
        return cls(policy, folder, server, keys)

    def stop(self) -> None:
        """End it."""
        self._server.stop()

    def call(
        self, caller: str, method: str, path: str, body: Any = None, kind: str = "application/json"
    ) -> Any:
        """One call on the thread's connection; returns the JSON of its answer."""
        local = self._local
        if not hasattr(local, "connection"):
            local.connection = HTTPConnection(*self._server.address, timeout=120)
        elif time.monotonic() > local.used_at + IDLE_SECONDS:
            local.connection.close()  # before the service closes it
        connection: HTTPConnection = local.connection
        headers = {"Authorization": f"Bearer {self._keys[caller]}"}
        if body is not None:
            headers["Content-Type"] = kind
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        content = answer.read()
        local.used_at = time.monotonic()
        if answer.status >= 300:
            raise JobsFailed(f"{method} {path}: {answer.status} {content[:500]!r}")
        return json.loads(content) if content else None

    def store(self, asks: Sequence[Ask]) -> None:
        """Store the operands of jobs: for each caller one matrix of each size and type."""
        for ask in asks:
            name = Ask(ask.caller, ask.size, ask.dtype)
            if name not in self._operands:
                body = BytesIO()
                np.save(body, draw_operand(ask))
                path = "/v1/matrices?storage=memory"
                stored = self.call(ask.caller, "POST", path, body.getbuffer(), "application/x-npy")
                self._operands[name] = stored["id"]

    def describe(self, ask: Ask, storage: str) -> dict[str, Any]:
        """The request of a job."""
        matrix = self._operands[Ask(ask.caller, ask.size, ask.dtype)]
        return {"a": matrix, "b": matrix, "storage": storage}

    def post(self, ask: Ask, storage: str = "memory") -> dict[str, Any]:
        """Post a job; returns its record."""
        request = json.dumps(self.describe(ask, storage))
        accepted: dict[str, Any] = self.call(ask.caller, "POST", "/v1/jobs", request)
        return accepted

    def post_list(self, asks: Sequence[Ask]) -> list[Posted]:
        """Post jobs of one caller as a list."""
        request = json.dumps([self.describe(ask, "memory") for ask in asks])
        due = time.time()
        accepted = self.call(asks[0].caller, "POST", "/v1/jobs", request)
        return [(ask, due, one) for ask, one in zip(asks, accepted, strict=True)]

    def wait(self, ask: Ask, due: float, accepted: dict[str, Any]) -> Done:
        """Wait until a job has ended."""
        ended = accepted
        while ended["state"] in ("queued", "running"):
            ended = self.call(ask.caller, "GET", f"/v1/jobs/{accepted['id']}{_WAIT}")
        if ended["state"] != "succeeded":
            raise JobsFailed(f"job of {ask.size}² {ask.dtype}: {ended['state']}, {ended['error']}")
        return Done(ask, due, accepted, ended)

    def remove(self, done: Done) -> None:
        """Remove a job's result."""
        self.call(done.ask.caller, "DELETE", f"/v1/matrices/{done.ended['result']}")

    def follow(self, ask: Ask, due: float, accepted: dict[str, Any]) -> Done:
        """Wait until a job has ended, and remove its result."""
        self.remove(done := self.wait(ask, due, accepted))
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

    def repeat(self, ask: Ask, count: int, clients: int, storage: str) -> list[Done]:
        """Clients post job after job, each once its last one has succeeded.

        Call `remove` for the results.
        """

        def run(_: int) -> Done:
            due = time.time()
            return self.wait(ask, due, self.post(ask, storage))

        with ThreadPoolExecutor(clients) as pool:
            return list(pool.map(run, range(count)))

    @contextmanager
    def measuring(self) -> Iterator[Used]:
        """Measure what a block uses; known when it ends."""
        used, began = Used(), time.perf_counter()
        clocks: tuple[Callable[[], float], ...] = (self._read_cpu, _read_own_cpu)
        before = [clock() for clock in clocks]
        yield used
        used.seconds = time.perf_counter() - began
        after = [clock() for clock in clocks]
        used.service_seconds, used.client_seconds = (
            last - first for first, last in zip(before, after, strict=True)
        )

    def _read_cpu(self) -> float:
        """CPU seconds of the service's process, without its engine's."""
        fields = Path(f"/proc/{self._server.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS


def _read_own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
