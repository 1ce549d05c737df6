"""The jobs that have not ended, as the process knows them: one object a job.

A live job waits for the results of others, is queued, is brought into memory, runs, and has its
result written.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING

from wavetrim.service.jobs.job import Job, JobState
from wavetrim.service.jobs.lanes.attempt import Attempt
from wavetrim.service.jobs.news import JobNews
from wavetrim.service.jobs.operands import Operands
from wavetrim.service.jobs.queue import Queue

if TYPE_CHECKING:
    from wavetrim.service.engine.engine import Engine
    from wavetrim.service.jobs.estimate import Answer
    from wavetrim.service.jobs.inline import InlineProducts
    from wavetrim.service.jobs.lanes.engine_queue import EngineQueue
    from wavetrim.service.jobs.plans import Plans
    from wavetrim.service.jobs.table.store import JobStore
    from wavetrim.service.settings import Settings
    from wavetrim.service.storage.matrices.matrices import MatrixStore
    from wavetrim.service.telemetry.metrics import Metrics
    from wavetrim.service.telemetry.traces import Traces


@dataclass(slots=True, eq=False)
class LiveJob:
    """A job that has not ended.

    Attributes:
        job: The job as it is now.
        attempt: Its next attempt, or the one that runs. It is queued once the operands are there.
        operands: Its A, B and C; None if they are still to be found.
        is_counted: Whether each try is written to the database before it begins. A job that ends
            the service at once would otherwise be tried for ever.
        is_inline: Whether the service computes it itself, without an engine.
        task: Brings it into memory and runs it, once it was taken from the queue.
        is_computed: Whether its product is computed: its result is being written.
        has_try: Whether its next try is counted already, as it was written before it begins.
        is_stopped: Whether it is to end as soon as the engine lets go of it.
        failure: Kind and message that it is to fail with then; None if it was cancelled.
        writing: Writes that its try has begun, if that is slow.
        told: The first answer about its end, from which is learned; None if no engine was ready.
        answer: The last answer.
        deadline: Ends it at its deadline.
        timeout: Ends it when it has run for as long as it may.
    """

    job: Job
    attempt: Attempt
    operands: Operands | None = None
    is_counted: bool = False
    is_inline: bool = False
    task: asyncio.Task[None] | None = None
    is_computed: bool = False
    has_try: bool = False
    is_stopped: bool = False
    failure: tuple[str, str] | None = None
    writing: asyncio.Task[None] | None = None
    told: "Answer | None" = None
    answer: "Answer | None" = None
    deadline: asyncio.TimerHandle | None = None
    timeout: asyncio.TimerHandle | None = None

    @property
    def has_begun(self) -> bool:
        """Whether an engine has it, or had it. Until then the job is queued."""
        return self.job.state is JobState.RUNNING


class LiveJobs:
    """All live jobs, by their ids. To be used from one event loop.

    Args:
        jobs: Reads rows, and is told which jobs have begun and ended since.
        news: Hears of each change.

    Attributes:
        news: As given.
        inline_queue: Of the jobs that the service computes itself: they take no device.
        running: Those that were taken from a queue.
    """

    def __init__(self, jobs: "JobStore", news: JobNews) -> None:
        self._jobs: dict[str, LiveJob] = {}
        self._queued: Counter[str] = Counter()
        self._rows, self.news = jobs, news
        self.inline_queue = Queue()
        self.running: set[LiveJob] = set()

    def __iter__(self) -> Iterator[LiveJob]:
        """Those that run first, and then those that are queued."""
        waiting = (one for one in self._jobs.values() if not (one.task or one.job.awaited))
        return chain(self.running, waiting)

    def list_next(self, owner: str | None, most: int) -> list[Job]:
        """Some jobs that are queued or run, those that run first.

        Args:
            owner: Whose they are; None for anybody's.
            most: The most jobs to return.
        """
        found = (live.job for live in self)
        return list(islice((job for job in found if owner in (None, job.owner)), most))

    def find(self, job_id: str) -> LiveJob | None:
        """A job; None if it has ended, or is unknown."""
        return self._jobs.get(job_id)

    def find_job(self, job_id: str, owner: str | None = None) -> Job | None:
        """A job of an owner as it is now, from memory; None if only its row tells that.

        A job may also have ended a while ago, or wait for others: their ends change its row first.
        """
        live = self._jobs.get(job_id)
        job = self._rows.ended.find(job_id) if live is None else live.job
        return job if job and owner in (None, job.owner) and not job.awaited else None

    def add(self, live: LiveJob) -> None:
        """A job was accepted."""
        self._jobs[live.job.id] = live
        self.reserve(live.job.owner, 1)

    def update(self, live: LiveJob, job: Job) -> None:
        """A job has changed; the first change that has it run lets others be queued."""
        if job.state is JobState.RUNNING and not live.has_begun:
            self.reserve(job.owner, -1)
        live.job = job
        if live.has_begun:
            self._rows.running[job.id] = job
        self.news.tell(job)

    def end(self, live: LiveJob, ended: Job) -> None:
        """A job has ended: tell those who wait for that."""
        self.remove(live)
        self._rows.ended.keep(ended.id, ended)
        self.news.tell(ended)

    def remove(self, live: LiveJob) -> None:
        """A job has ended, or begins another life."""
        self._rows.running.pop(live.job.id, None)
        for timer in (live.deadline, live.timeout):
            if timer is not None:
                timer.cancel()
        if self._jobs.pop(live.job.id, None) is not None and not live.has_begun:
            self.reserve(live.job.owner, -1)

    def count_queued(self, owner: str) -> int:
        """How many jobs of an owner have not begun, or are being accepted."""
        return self._queued.get(owner, 0)

    def reserve(self, owner: str, count: int) -> None:
        """Count more jobs, or fewer: those that are being accepted may not pass the limit."""
        self._queued[owner] += count
        if not self._queued[owner]:
            del self._queued[owner]

    def count_inline(self) -> int:
        """How many the service has begun to compute itself, and not computed yet."""
        return sum(one.is_inline and not one.is_computed for one in self.running)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobParts:
    """What a job meets on its way, and a product in one call.

    Attributes:
        jobs: Keeps jobs.
        live: Those that have not ended.
        matrices: Has their operands and results.
        engine: This machine's.
        engines: Where they wait for the engines.
        inline: Computes the smallest without an engine.
        plans: Say how long they should take.
        settings: How many may wait, and how long one may run.
        metrics: Counts them.
        traces: Makes their spans; None without.
    """

    jobs: "JobStore"
    live: LiveJobs
    matrices: "MatrixStore"
    engine: "Engine"
    engines: "EngineQueue"
    inline: "InlineProducts"
    plans: "Plans"
    settings: "Settings"
    metrics: "Metrics"
    traces: "Traces | None" = None
