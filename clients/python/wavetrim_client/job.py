"""A job of the service, and several that are waited for."""

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

from numpy.typing import NDArray

from .downloads import Arrival, fetch_array, fetch_file
from .errors import JobUnsuccessful, ServiceBusy, ServiceUnreachable, WaitTimeout
from .options import JobOptions, describe_options
from .records import Expected, JobStatus
from .wire.calls import Calls, make_json_body
from .wire.connection import Body, Request
from .wire.interruption import find_interruption

T = TypeVar("T")

OUTAGE_SECONDS: Final = 30.0
"""How long the service may be away while a job is waited for: jobs survive a restart. Chosen."""

LOOK_SECONDS: Final = 1.0
"""How long one request about a job waits for its end at most; chosen."""

_SHORT_LOOK_SECONDS: Final = 0.1
"""The same if the caller watches the progress, or waits for any of several jobs; chosen."""

_PAUSE_SECONDS: Final = 0.1
"""The pause between two requests to a service that stops, or is away; chosen."""

_PAGE: Final = 200
"""Jobs per request where all unfinished ones are asked for; the service's limit."""

Watcher = Callable[[JobStatus], None]
"""Receives the job each time the service is asked."""


class PostedJob:
    """A job of the service, as another job names it as its operand.

    Attributes:
        id: Its id, valid for as long as the service keeps the job.
    """

    id: str

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"


class Job(PostedJob):
    """A job of the service.

    Attributes:
        expected: When it starts and ends, as the service said when it was last asked: at the post,
            by `status` or while the job is waited for. None if it has ended, or was never asked.
    """

    def __init__(self, calls: Calls, job_id: str, expected: Expected | None = None) -> None:
        self._calls = calls
        self.id = job_id
        self.expected = expected

    def status(self) -> JobStatus:
        """The job as it is now.

        Raises:
            NotFound: The service has no such job, or no longer has it.
        """
        return self._ask(self._calls)

    def wait(
        self, *, progress: bool | Watcher = False, timeout_seconds: float | None = None
    ) -> JobStatus:
        """Wait until the job has succeeded, also over a restart of the service.

        Args:
            progress: True shows a bar and the expected end if rich is installed; a function
                receives the job each time the service is asked.
            timeout_seconds: How long to wait; None for no limit.

        Raises:
            JobUnsuccessful: It failed or was cancelled.
            WaitTimeout: It was not finished in time; it goes on.
        """
        longest = LOOK_SECONDS if progress is False else _SHORT_LOOK_SECONDS
        with _watch(progress) as on_progress:

            def look(calls: Calls, wait_seconds: float) -> JobStatus | None:
                job = self._ask(calls, wait_seconds=wait_seconds)
                if on_progress is not None:
                    on_progress(job)
                return job if job.is_finished else None

            what = f"job {self.id} is"
            job = _wait_for(look, self._calls, timeout_seconds, longest=longest, what=what)
        if job.state != "succeeded":
            raise JobUnsuccessful(job.id, job.state, job.error)
        return job

    def result(
        self, *, out: NDArray[Any] | None = None, timeout_seconds: float | None = None
    ) -> NDArray[Any]:
        """Wait for the job and return its product; raises what `wait` raises.

        Args:
            out: An array of the product's shape and element type, which is filled and returned.
            timeout_seconds: How long to wait for the job; None for no limit.
        """
        self.wait(timeout_seconds=timeout_seconds)
        return fetch_array(self._calls, f"/v1/jobs/{self.id}/result", out)

    def download(self, path: str | os.PathLike[str], *, on_progress: Arrival | None = None) -> int:
        """Write the product of a succeeded job to a .npy file, as `Client.download` does."""
        return fetch_file(self._calls, f"/v1/jobs/{self.id}/result", Path(path), on_progress)

    def set_priority(self, priority: int) -> JobStatus:
        """Change the priority of the queued job; returns the job as it is now.

        Raises:
            ServiceRefused: It is not queued any longer.
        """
        asked = describe_options({"priority": priority}, JobOptions)
        return self._ask(self._calls, "PATCH", make_json_body(asked))

    def cancel(self) -> JobStatus:
        """Stop the job, queued or running; returns the job as it is now."""
        return self._ask(self._calls, "DELETE")

    def _ask(
        self, calls: Calls, method: str = "GET", body: Body | None = None, **query: float
    ) -> JobStatus:
        """The job after a request; with `wait_seconds`, when it ends, or when they are over."""
        request = Request(method, f"/v1/jobs/{self.id}", query, body=body, repeatable=True)
        job = JobStatus.read(calls.ask(request))
        self.expected = job.expected
        return job


def as_completed(jobs: Iterable[Job], *, timeout_seconds: float | None = None) -> Iterator[Job]:
    """The jobs of one client as they end, with or without a product; each is given once.

    The service is asked again and again. Jobs that have ended since it was asked before are given
    in the order of their ends.

    Args:
        jobs: The jobs.
        timeout_seconds: How long to wait for all of them; None for no limit.

    Raises:
        WaitTimeout: Some were not finished in time; they go on.
    """
    left = list(dict.fromkeys(jobs))
    began = time.monotonic()

    def look(calls: Calls, wait_seconds: float) -> list[Job] | None:
        left[0]._ask(calls, wait_seconds=wait_seconds)
        unfinished = {
            job["id"]
            for state in ("queued", "running")
            for page in calls.list_pages("/v1/jobs", state=state, limit=_PAGE)
            for job in page["jobs"]
        }
        found = {job: job._ask(calls) for job in left if job.id not in unfinished}
        ended = [job for job, status in found.items() if status.is_finished]
        return sorted(ended, key=lambda job: found[job].document["finished_at"]) or None

    while left:
        seconds = None if timeout_seconds is None else timeout_seconds - (time.monotonic() - began)
        what = f"{len(left)} jobs are"
        ended = _wait_for(look, left[0]._calls, seconds, longest=_SHORT_LOOK_SECONDS, what=what)
        yield from ended
        left = [job for job in left if job not in ended]


def _wait_for(
    look: Callable[[Calls, float], T | None],
    calls: Calls,
    timeout_seconds: float | None,
    *,
    longest: float,
    what: str,
) -> T:
    """What is found by looks, which are repeated until then, also over a restart of the service.

    Each look takes `longest` seconds at most, and returns None if there is nothing yet. The error
    says `what` is waited for.
    """
    longest = min(longest, calls.timeout_seconds / 2)  # the service is silent until then
    answered = time.monotonic()
    end = answered + (math.inf if timeout_seconds is None else timeout_seconds)
    while True:
        asked = time.monotonic()
        left = max(0.0, end - asked)
        longest_look = min(longest, left)
        try:
            found = look(calls.within(left + LOOK_SECONDS), longest_look)
            answered = time.monotonic()
        except (ServiceUnreachable, ServiceBusy):
            if answered + OUTAGE_SECONDS < time.monotonic() <= end:
                raise
            found = None
        if found is not None:
            return found
        if time.monotonic() > end:
            raise WaitTimeout(f"{what} not finished after {timeout_seconds} s")
        if time.monotonic() - asked < longest_look:  # the service did not wait
            find_interruption().sleep(_PAUSE_SECONDS)


@contextlib.contextmanager
def _watch(progress: bool | Watcher) -> Iterator[Watcher | None]:
    """The function that receives the job while it is waited for; None for none."""
    if progress is not True:
        yield progress or None
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn
    except ImportError:
        yield None
        return
    columns = ("{task.description}", BarColumn(20), TaskProgressColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("multiply", total=1.0)
        yield lambda job: bar.update(task, completed=job.progress, description=_describe(job))


def _describe(job: JobStatus) -> str:
    """The state of a job, and its expected end in local time."""
    if job.expected is None:
        return job.state
    first, last = job.expected.ends_between
    begin, middle, end = (
        f"{at.astimezone():%H:%M:%S}" for at in (first, job.expected.ends_at, last)
    )
    return f"{job.state}, ends at {middle} ({begin} to {end})"
