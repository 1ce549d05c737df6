"""Dispatch: takes jobs in, and begins as many as the engines can take, in the order of the queue.

A machine without a GPU takes one at a time; one with GPUs takes two more for each GPU. A cluster's
nodes take two each: the operands of one travel while the other is computed. Nothing is polled: a
new job wakes the dispatcher, and its end wakes those who wait for it.
"""

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy.exc import SQLAlchemyError

from wavetrim.scheduler.errors import FieldError
from wavetrim.service.api.jobs.job_schemas import JobRequest
from wavetrim.service.engine.engine import Engine
from wavetrim.service.errors import Draining, ServiceError
from wavetrim.service.jobs.errors import JobNotFound
from wavetrim.service.jobs.job import MOST_TRIES, Job, JobState
from wavetrim.service.jobs.lanes.lane import Lane
from wavetrim.service.jobs.news import JobNews
from wavetrim.service.jobs.posting import Posting
from wavetrim.service.jobs.products import Products
from wavetrim.service.jobs.queue import KnownQueue, Waiting
from wavetrim.service.jobs.run import JobRun
from wavetrim.service.jobs.runs import PAUSE_SECONDS, JobRuns
from wavetrim.service.jobs.table.store import JobStore
from wavetrim.service.jobs.waiters import Waiters
from wavetrim.service.settings import Settings
from wavetrim.service.storage.matrices.kept import KeptMatrices
from wavetrim.service.storage.matrices.matrices import MatrixStore
from wavetrim.service.telemetry.metrics import Metrics
from wavetrim.service.tenants.tenant import ONE_TENANT, Tenant
from wavetrim.service.threads import run_to_end

if TYPE_CHECKING:
    from wavetrim.service.telemetry.traces import Traces

logger = logging.getLogger(__name__)


class Dispatcher:
    """Takes jobs in, runs them, and tells waiting callers when they end.

    To be used from one event loop.
    """

    def __init__(
        self,
        jobs: JobStore,
        matrices: MatrixStore,
        engine: Engine,
        *,
        lane: Lane,
        products: Products,
        kept: KeptMatrices,
        news: JobNews,
        settings: Settings,
        metrics: Metrics,
        traces: "Traces | None" = None,
    ) -> None:
        self._jobs = jobs
        self._matrices = matrices
        self._engine = engine
        self._settings = settings
        self._metrics = metrics
        self._lane = lane
        self._products = products
        self._news = news
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        make_run = partial(
            JobRun, jobs=jobs, matrices=matrices, engine=engine, lane=lane, kept=kept, news=news,
            settings=settings,
        )  # fmt: skip
        self._runs = JobRuns(make_run, jobs, metrics=metrics, traces=traces, on_end=self._end)
        self._waiters = Waiters()
        self._draining = False
        self._newest_before = 0
        self._queue = KnownQueue()
        lane.count_behind = lambda: len(self._queue)
        self._posting = Posting(jobs, matrices, engine, settings)
        self._last_job_seconds = 1.0

    @property
    def draining(self) -> bool:
        """True once the service takes no new work."""
        return self._draining

    async def start(self) -> None:
        """Put the jobs that an earlier service left unfinished back into the queue, and begin."""
        attempts = MOST_TRIES
        for job in await run_to_end(self._jobs.requeue_interrupted, attempts):
            logger.warning("job %s was interrupted; it is %s now", job.id, job.state)
        self._newest_before = await run_to_end(self._jobs.find_newest)
        self._task = asyncio.create_task(self._serve(), name="dispatcher")

    def look_again(self) -> None:
        """An engine has come or gone, so more or fewer jobs may run."""
        self._wake.set()
        self._lane.advance()

    async def submit(
        self,
        request: JobRequest,
        idempotency_key: str | None = None,
        tenant: Tenant = ONE_TENANT,
    ) -> tuple[Job, bool]:
        """Take a job in.

        Args:
            request: What is to be computed.
            idempotency_key: Makes a repeated call of the tenant's return the first job.
            tenant: Whose it is.

        Returns:
            The job, and whether this call made it.

        Raises:
            Draining: The service is stopping.
            OperandNotFound: An operand does not exist.
            FieldProblem: The operands do not fit, or the key belongs to another request.
            FieldError: An option cannot be met for this product on this machine.
            QueueFull: The queue is full.
        """
        if self._draining:
            raise self._refuse()
        looks = self._queue.looks
        try:
            job, operands = await run_to_end(
                self._posting.add, request, idempotency_key, tenant, self._last_job_seconds
            )
            waits = operands is not None and await self._remember(Waiting(job, operands), looks)
        except BaseException as error:
            if not isinstance(error, ServiceError | FieldError):  # the row may have been added
                self._queue.doubt()
                self._wake.set()
            raise
        if waits:
            self._news.tell(job)
            self._wake.set()
        return job, operands is not None

    async def cancel(self, job_id: str, owner: str | None = None) -> Job:
        """Cancel a job: a queued one at once, the running one as soon as the engine lets go.

        Args:
            job_id: The job.
            owner: Whose it must be; None for anybody's.

        Returns:
            The job as it is now.

        Raises:
            JobNotFound: There is no job of that id.
            JobFinished: The job has succeeded or failed already.
        """
        job = await run_to_end(self._jobs.request_cancel, job_id, owner)
        self._runs.cancel(job_id)
        if job.state is JobState.CANCELLED:
            self._queue.remove(job_id)
            self._metrics.record_end(job.state)
            self._waiters.tell(job_id, job)
            self._news.tell(job)
        return job

    async def wait(
        self, job_id: str, *, owner: str | None = None, most_seconds: float | None = None
    ) -> Job:
        """Wait until a job has finished.

        Args:
            job_id: The job.
            owner: Whose it must be; None for anybody's.
            most_seconds: How long to wait; None for as long as it takes.

        Returns:
            The job as it is now.

        Raises:
            JobNotFound: There is no job of that id.
            Draining: The service stops before the job has finished.
        """
        loop = asyncio.get_running_loop()
        until = None if most_seconds is None else loop.time() + most_seconds
        ended = None
        while ended is None:
            with self._waiters.expect(job_id) as future:
                job = self._runs.find(job_id)
                if job is None or owner not in (None, job.owner):
                    job = await run_to_end(self._jobs.get, job_id, owner)
                left_seconds = None if until is None else until - loop.time()
                if job.state.finished or (left_seconds is not None and left_seconds <= 0):
                    return job
                if self._draining and job_id not in self._runs:
                    raise self._refuse()
                await asyncio.wait({future}, timeout=left_seconds)
                ended = future.result() if future.done() else None
        return ended

    def begin_drain(self) -> None:
        """Take no new work from now on; running jobs go on, the queued ones stay queued."""
        self._draining = True
        self._products.begin_drain()
        self._wake.set()
        for job_id in self._waiters.job_ids:
            if job_id not in self._runs:
                self._waiters.tell(job_id, self._refuse())

    async def drain(self, seconds: float) -> None:
        """Take no new work, and give the running jobs some seconds to finish."""
        self.begin_drain()
        ending: set[asyncio.Task[None]] = {asyncio.create_task(self._lane.wait_idle())}
        ending |= self._runs.tasks
        await asyncio.wait(ending, timeout=seconds)
        self._news.end()

    async def stop(self) -> None:
        """End now: jobs that still run go back to the queue, for the next start."""
        self.begin_drain()
        tasks = self._runs.tasks
        if self._task is not None:
            tasks.add(self._task)
            self._task = None
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for job_id in self._waiters.job_ids:
            self._waiters.tell(job_id, self._refuse())
        self._news.end()

    async def _serve(self) -> None:
        while not self._draining:
            await self._engine.wait_ready()
            self._wake.clear()
            try:
                waiting = None
                if self._has_place():
                    waiting = await self._queue.find_next(self._jobs, self._matrices)
                if self._draining:
                    return
                if waiting is None:
                    await self._wake.wait()
                else:
                    # A job from before this start may be what ended the service.
                    counted = waiting.job.sequence <= self._newest_before
                    self._runs.begin(waiting, counted=counted)
            except SQLAlchemyError:
                logger.exception("the queue cannot be read")
                self._queue.doubt()
                await asyncio.sleep(PAUSE_SECONDS)

    async def _remember(self, waiting: Waiting, looks: int) -> bool:
        """Add a new job to the queue, unless it runs or has ended by now.

        Args:
            waiting: The job.
            looks: `KnownQueue.looks` from before its row was added: only a search that has ended
                since may have found it.

        Returns:
            Whether it waits.
        """
        while looks != self._queue.looks:
            looks = self._queue.looks
            try:
                job = await run_to_end(self._jobs.get, waiting.job.id)
            except (SQLAlchemyError, JobNotFound):
                self._queue.doubt()
                return True
            if job.state is not JobState.QUEUED:
                return False
        self._queue.add(waiting)
        return True

    def _has_place(self) -> bool:
        """Whether one more job may begin. One of higher priority may exceed the usual limit."""
        count, most = len(self._runs), self._lane.most_runs
        if count < most or most == 1:
            return count < most
        urgent = self._queue.highest_priority
        return urgent is not None and urgent > self._runs.least_priority and count < 2 * most

    def _end(self, job_id: str, ended: Job | None) -> None:
        """A run has ended: tell of its job, which is None if the job had ended before."""
        self._wake.set()
        if ended is not None:
            self._news.tell(ended)
        if ended is not None and ended.state.finished:
            if ended.started_at is not None and ended.finished_at is not None:
                self._last_job_seconds = max(1.0, ended.finished_at - ended.started_at)
            self._waiters.tell(job_id, ended)
            return
        self._queue.doubt()  # the job may be queued again
        if ended is None:
            self._waiters.tell(job_id, None)  # they read its row

    def _refuse(self) -> Draining:
        return Draining(self._settings.drain_seconds)
