"""A job of the service."""

import math
import os
import time
from pathlib import Path
from typing import Any, Final

from numpy.typing import NDArray

from .errors import JobUnsuccessful, ServiceBusy, ServiceUnreachable, WaitTimeout
from .matrices.downloads import Arrival, download_file, receive_array
from .progress import Watcher, watch
from .records import JobStatus
from .wire.calls import Calls
from .wire.interruption import find_interruption
from .wire.request import Request

OUTAGE_SECONDS: Final = 30.0
"""How long the service may be away while a job is waited for: jobs survive a restart. Chosen."""

LOOK_SECONDS: Final = 1.0
"""How long one request about a job waits for its end at most; chosen."""

_WATCHED_LOOK_SECONDS: Final = 0.1
"""The same if the caller watches the progress; chosen."""

_FIRST_POLL_SECONDS: Final = 0.005
"""The first pause between two requests if the service does not wait itself; chosen."""


class Job:
    """A job of the service.

    Attributes:
        id: Its id, valid for as long as the service keeps the job.
    """

    def __init__(self, calls: Calls, job_id: str, *, timeout_seconds: float | None) -> None:
        self._calls = calls
        self._silence_seconds = timeout_seconds
        self.id = job_id

    def __repr__(self) -> str:
        return f"Job({self.id!r})"

    def status(self) -> JobStatus:
        """The job as it is now.

        Raises:
            NotFound: The service has no such job, or no longer has it.
        """
        return look(self._calls, self.id)

    def wait(
        self, *, progress: bool | Watcher = False, timeout_seconds: float | None = None
    ) -> JobStatus:
        """Wait until the job has succeeded, also over a restart of the service.

        Args:
            progress: True shows a bar if rich is installed; a function receives the job each time
                the service is asked.
            timeout_seconds: How long to wait; None for no limit.

        Raises:
            JobUnsuccessful: It failed or was cancelled.
            WaitTimeout: It was not finished in time; it goes on.
        """
        with watch(progress) as on_progress:
            return self._wait(on_progress, timeout_seconds)

    def result(
        self, *, out: NDArray[Any] | None = None, timeout_seconds: float | None = None
    ) -> NDArray[Any]:
        """Wait for the job and return its product; raises what `wait` raises.

        Args:
            out: An array of the product's shape and element type, which is filled and returned.
            timeout_seconds: How long to wait for the job; None for no limit.
        """
        self.wait(timeout_seconds=timeout_seconds)
        return receive_array(self._calls, f"/v1/jobs/{self.id}/result", out)

    def download(self, path: str | os.PathLike[str], *, on_progress: Arrival | None = None) -> int:
        """Write the product of a succeeded job to a .npy file, as `Client.download` does."""
        place = f"/v1/jobs/{self.id}/result"
        return download_file(self._calls, place, Path(path), on_progress)

    def cancel(self) -> JobStatus:
        """Stop the job, queued or running; returns the job as it is now."""
        return cancel(self._calls, self.id)

    def _wait(self, on_progress: Watcher | None, timeout_seconds: float | None) -> JobStatus:
        """Wait until a job has succeeded: the service answers when the job has ended.

        A service that answers at once is asked often at first, then once a second.
        """
        pause = _FIRST_POLL_SECONDS
        longest = LOOK_SECONDS if on_progress is None else _WATCHED_LOOK_SECONDS
        if self._silence_seconds is not None:  # the service is silent until then
            longest = min(longest, self._silence_seconds / 2)
        begin = answered = time.monotonic()
        end = begin + (math.inf if timeout_seconds is None else timeout_seconds)
        while True:
            asked = time.monotonic()
            left = max(0.0, end - asked)
            longest_look = min(longest, left)
            calls = self._calls.within(left + LOOK_SECONDS)
            try:
                job = look(calls, self.id, wait_seconds=longest_look)
                answered = time.monotonic()
            except (ServiceUnreachable, ServiceBusy):
                if answered + OUTAGE_SECONDS < time.monotonic() <= end:
                    raise
            else:
                if on_progress is not None:
                    on_progress(job)
                if _has_succeeded(job):
                    return job
            if time.monotonic() > end:
                raise WaitTimeout(f"job {self.id} is not finished after {timeout_seconds} s")
            if time.monotonic() - asked < longest_look:  # the service did not wait
                find_interruption().sleep(pause)
                pause = min(LOOK_SECONDS, pause * 1.4)


def look(calls: Calls, job_id: str, *, wait_seconds: float | None = None) -> JobStatus:
    """A job as it is when it ends, or after `wait_seconds`; None for now."""
    return JobStatus.read(calls.get(f"/v1/jobs/{job_id}", wait_seconds=wait_seconds))


def cancel(calls: Calls, job_id: str) -> JobStatus:
    """Stop a job, queued or running; returns it as it is now."""
    return JobStatus.read(calls.ask(Request("DELETE", f"/v1/jobs/{job_id}", repeatable=True)))


def _has_succeeded(job: JobStatus) -> bool:
    """Whether a job has ended with a product.

    Raises:
        JobUnsuccessful: It has ended without.
    """
    if job.is_finished and job.state != "succeeded":
        raise JobUnsuccessful(job.id, job.state, job.error)
    return job.is_finished
