"""News of jobs: listeners hear of each change as it happens, from memory.

A slow listener gets each changed job in its newest state, not all states in between.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from wavetrim.service.jobs.job import Job

_MOST_UNREAD: Final = 500
"""Changed jobs that are remembered for a listener that is slow; chosen."""


class Listener:
    """Collects news of jobs for one reader. To be used from the event loop of its `JobNews`.

    Args:
        owner: Whose jobs; None for everybody's.

    Attributes:
        missed: Whether changes were dropped, as there were too many for `wait` to fetch.
        ended: Whether there will be no more news.
    """

    def __init__(self, owner: str | None) -> None:
        self._owner = owner
        self._unread: dict[str, Job] = {}
        self._wake = asyncio.Event()
        self.missed = self.ended = False

    def take(self, job: Job) -> None:
        """Hear of a job."""
        if self._owner not in (None, job.owner):
            return
        if job.id not in self._unread and len(self._unread) >= _MOST_UNREAD:
            self._unread.clear()
            self.missed = True
        self._unread[job.id] = job
        self._wake.set()

    def wake(self, *, ends: bool) -> None:
        """Let `wait` return now, and each time if the news ends."""
        self.ended |= ends
        self._wake.set()

    async def wait(self, most_seconds: float | None) -> tuple[Job, ...]:
        """Wait for jobs that have changed; empty when the time is up or the news has ended."""
        with suppress(TimeoutError):
            async with asyncio.timeout(most_seconds):
                await self._wake.wait()
        if not self.ended:
            self._wake.clear()
        unread, self._unread = self._unread, {}
        return tuple(unread.values())


class JobNews:
    """Tells listeners of jobs. To be used from one event loop."""

    def __init__(self) -> None:
        self._listeners: dict[str | None, set[Listener]] = {}
        self._ended = False

    def tell(self, job: Job) -> None:
        """A job is new, or has changed."""
        for job_id in (None, job.id):
            for listener in self._listeners.get(job_id, ()):
                listener.take(job)

    @contextmanager
    def listen(self, *, job_id: str | None = None, owner: str | None = None) -> Iterator[Listener]:
        """Listen until the block ends.

        Args:
            job_id: The job to hear of; None for all.
            owner: Whose jobs; None for everybody's.
        """
        listener = Listener(owner)
        self._listeners.setdefault(job_id, set()).add(listener)
        if self._ended:
            listener.wake(ends=True)
        try:
            yield listener
        finally:
            self._listeners[job_id].discard(listener)
            if not self._listeners[job_id]:
                del self._listeners[job_id]

    def wake(self, *, ends: bool = False) -> None:
        """Let every listener look again, as no new work is taken; or go, as the service stops."""
        self._ended |= ends
        for listeners in self._listeners.values():
            for listener in listeners:
                listener.wake(ends=ends)
