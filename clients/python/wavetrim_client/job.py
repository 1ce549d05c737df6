"""A job of the service, for blocking and for asynchronous callers."""

import os
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from .jobs import Jobs
from .matrices.downloads import Arrival
from .progress import Watcher, watch
from .records import JobStatus
from .wire.network import run


class Job:
    """A job of the service.

    Attributes:
        id: Its id, valid for as long as the service keeps the job.
    """

    def __init__(self, jobs: Jobs, job_id: str) -> None:
        self._jobs = jobs
        self.id = job_id

    def __repr__(self) -> str:
        return f"Job({self.id!r})"

    def status(self) -> JobStatus:
        """The job as it is now.

        Raises:
            NotFound: The service has no such job, or no longer has it.
        """
        return run(self._jobs.look(self.id))

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
            return run(
                self._jobs.wait(self.id, timeout_seconds=timeout_seconds, on_progress=on_progress)
            )

    def result(
        self, *, out: NDArray[Any] | None = None, timeout_seconds: float | None = None
    ) -> NDArray[Any]:
        """Wait for the job and return its product; raises what `wait` raises.

        Args:
            out: An array of the product's shape and element type, which is filled and returned.
            timeout_seconds: How long to wait for the job; None for no limit.
        """
        self.wait(timeout_seconds=timeout_seconds)
        return run(self._jobs.result(self.id, out))

    def download(self, path: str | os.PathLike[str], *, on_progress: Arrival | None = None) -> int:
        """Write the product of a succeeded job to a .npy file, as `Client.download` does."""
        return run(self._jobs.download_result(self.id, Path(path), on_progress))

    def cancel(self) -> JobStatus:
        """Stop the job, queued or running; returns the job as it is now."""
        return run(self._jobs.cancel(self.id))


class AsyncJob:
    """`Job` for asynchronous callers.

    Attributes:
        id: Its id, valid for as long as the service keeps the job.
    """

    def __init__(self, jobs: Jobs, job_id: str) -> None:
        self._jobs = jobs
        self.id = job_id

    def __repr__(self) -> str:
        return f"AsyncJob({self.id!r})"

    async def status(self) -> JobStatus:
        """The job as it is now; see `Job.status`."""
        return await self._jobs.look(self.id)

    async def wait(
        self, *, progress: bool | Watcher = False, timeout_seconds: float | None = None
    ) -> JobStatus:
        """Wait until the job has succeeded; see `Job.wait`."""
        with watch(progress) as on_progress:
            return await self._jobs.wait(
                self.id, timeout_seconds=timeout_seconds, on_progress=on_progress
            )

    async def result(
        self, *, out: NDArray[Any] | None = None, timeout_seconds: float | None = None
    ) -> NDArray[Any]:
        """Wait for the job and return its product; see `Job.result`."""
        await self.wait(timeout_seconds=timeout_seconds)
        return await self._jobs.result(self.id, out)

    async def download(
        self, path: str | os.PathLike[str], *, on_progress: Arrival | None = None
    ) -> int:
        """Write the product of a succeeded job to a .npy file; see `Job.download`."""
        return await self._jobs.download_result(self.id, Path(path), on_progress)

    async def cancel(self) -> JobStatus:
        """Stop the job; see `Job.cancel`."""
        return await self._jobs.cancel(self.id)
