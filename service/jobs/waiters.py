"""Callers that wait for jobs to end."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from wavetrim.service.jobs.job import Job

Ended = asyncio.Future[Job | None]


class Waiters:
    """Futures of the callers, by the jobs' ids. To be used from one event loop."""

    def __init__(self) -> None:
        self._futures: dict[str, set[Ended]] = {}

    @property
    def job_ids(self) -> tuple[str, ...]:
        """The jobs that somebody waits for."""
        return tuple(self._futures)

    @contextmanager
    def expect(self, job_id: str) -> Iterator[Ended]:
        """Yields a future that is done when the job is told to have ended."""
        future: Ended = asyncio.get_running_loop().create_future()
        self._futures.setdefault(job_id, set()).add(future)
        try:
            yield future
        finally:
            waiting = self._futures.get(job_id, set())
            waiting.discard(future)
            if not waiting:
                self._futures.pop(job_id, None)

    def tell(self, job_id: str, ended: Job | Exception | None) -> None:
        """Wake all who wait for a job, with the job as it ended, an error, or None if unknown."""
        for future in self._futures.pop(job_id, ()):
            if future.done():
                continue
            if isinstance(ended, Exception):
                future.set_exception(ended)
            else:
                future.set_result(ended)
