"""Dispatch: takes jobs in, cancels them, and waits for their ends.

The first that wait are brought into memory while others are computed, and results are written while
the next ones are. Nothing is polled: a new job begins those that may begin, and its end wakes those
who wait for it.
"""

import asyncio
import logging
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from sqlalchemy.exc import SQLAlchemyError

from wavetrim.scheduler.engine.messages import RunRequest
from wavetrim.scheduler.errors import FieldError
from wavetrim.service.clock import read_clock, read_time, show_time
from wavetrim.service.errors import FieldProblem, QuotaReached, ServiceError
from wavetrim.service.jobs.errors import QueueFull
from wavetrim.service.jobs.job import Job, JobRequest, JobState
from wavetrim.service.jobs.live import LiveJobs
from wavetrim.service.jobs.operands import check_operands, find_operand, make_product
from wavetrim.service.jobs.products import Products
from wavetrim.service.jobs.table.rows import make_job
from wavetrim.service.jobs.table.store import insist
from wavetrim.service.storage.database.database import split
from wavetrim.service.storage.matrices.npy import Layout
from wavetrim.service.telemetry.logs import trace_parent
from wavetrim.service.tenants.tenant import ONE_TENANT, Tenant
from wavetrim.service.threads import run_to_end

logger = logging.getLogger(__name__)


class Dispatcher:
    """Takes jobs in, runs them, and tells waiting callers when they end.

    To be used from one event loop. Where a method takes an `owner`, others' jobs do not exist for
    it; None stands for everybody.

    Args:
        live: Those that have not ended.
        products: Those in one call, which end with the service, too.

    Attributes:
        live: As given.
        jobs: Keeps them.
        ends: Tells when they should end.
    """

    def __init__(self, live: LiveJobs, products: Products) -> None:
        self.live, self._products = live, products
        self.jobs, self.ends = live.jobs, live.ends

    @property
    def draining(self) -> bool:
        """True once the service takes no new work."""
        return self.live.engines.draining

    async def start(self) -> None:
        """Put the jobs that an earlier service left unfinished back into the queue, and begin."""
        for job in await run_to_end(self.jobs.requeue_interrupted):
            logger.warning("job %s was interrupted; it is %s now", job.id, job.state)
        # Their tries are counted, as one of them may have ended that service.
        for job, product in await run_to_end(self.live.read, None):
            self.live.add(job, product, is_counted=True)
        self.live.engines.start(self.live.predict_anew(), "jobs")
        self.live.advance()

    async def submit_all(
        self,
        requests: Sequence[JobRequest],
        idempotency_key: str | None = None,
        tenant: Tenant = ONE_TENANT,
    ) -> tuple[list[Job], bool]:
        """Take jobs in, all or none.

        Args:
            requests: What is to be computed, at least one.
            idempotency_key: Makes a repeated call of the tenant's return the first jobs.
            tenant: Whose they are.

        Returns:
            The jobs, and whether this call made them.

        Raises:
            Draining: The service is stopping.
            OperandNotFound, JobNotFound: An operand does not exist.
            JobStateConflict: A job that was to make an operand has failed or was cancelled.
            FieldProblem: The operands do not fit, a deadline cannot be met, or the key belongs to
                another request.
            FieldError: An option cannot be met for this product on this machine.
            QueueFull: The caller's queue is full.
            QuotaReached: As many of its jobs wait as its key's quota allows.
        """
        if self.draining:
            raise self.live.engines.refuse()
        owner = tenant.name
        try:
            posted = await self._check(requests, tenant)
        except (ServiceError, FieldError):
            # A repeated POST gets its jobs even when an operand is gone by now.
            asked = [request.model_dump() for request in requests]
            first = await run_to_end(self.jobs.find_repeated, asked, idempotency_key, owner)
            if first:
                return first, False
            raise
        new, queued = [job for job, _ in posted], self.live.queued
        queued[owner] += len(new)  # so that they cannot pass the limit together
        try:
            jobs, created = await self.jobs.add(new, idempotency_key)
        except (SQLAlchemyError, asyncio.CancelledError):
            # It is not known whether their rows are written.
            self.live.engines.start(self._find_added([job.id for job in new]), "jobs")
            raise
        finally:
            queued[owner] -= len(new)
        if created:
            for job, (_, product) in zip(jobs, posted, strict=True):
                self.live.add(job, product)
            self.live.advance()
        return jobs, created

    async def _check(
        self, requests: Sequence[JobRequest], tenant: Tenant
    ) -> list[tuple[Job, RunRequest]]:
        """Find the operands of requests, plan them, and make jobs and products of them."""
        matrices, trace = self.live.matrices, trace_parent.get()
        new = [make_job(one.model_dump(), owner=tenant.name, trace=trace) for one in requests]
        awaited = {one for job in new for one in job.awaited.values()}
        jobs = await run_to_end(self.jobs.find, awaited, tenant.sees) if awaited else {}
        new = [job.take_results(jobs) for job in new]
        ids = {one for job in new for one in job.stored.values()}
        stored = await matrices.recall(ids, tenant.sees)
        posted = []
        for job in new:
            asked, named = job.request, job.operands.items()
            a, b, *rest = operands = [find_operand(*one, stored, jobs) for one in named]
            c = rest[0] if rest else None
            problem, stack = check_operands(a, b, c, alpha=asked["alpha"], beta=asked["beta"])
            shape = problem.m, problem.n, problem.dtype, stack
            matrices.find_size(Layout(*shape[:3], stack=stack))  # refuses one that is too large
            product = make_product(asked, operands)
            await self.live.engines.plans.plan_once(product)
            # It has waited since now: others were served while this one was planned.
            posted.append((replace(job, shape=shape, created_at=read_clock()), product))
        self._check_count(tenant, len(posted))
        for job, product in posted:
            self._check_times(job, product)
        return posted

    def _check_count(self, tenant: Tenant, count: int) -> None:
        waiting = self.live.queued[tenant.name] + count
        most, quota = self.live.engines.settings.max_queued_jobs, tenant.quota.queued_jobs
        if waiting > most:
            seconds = min(60, max(1, math.ceil(self.ends.find_left())))
            raise QueueFull("queued jobs", waiting, most, seconds)
        if quota is not None and waiting > quota:
            limit = f"at most {quota}, the key's quota (--max-queued-jobs)"
            raise QuotaReached("queued jobs", waiting, limit)

    def _check_times(self, job: Job, product: RunRequest) -> None:
        """Refuse a job that may run longer than any, or that should end after its deadline."""
        limit, asked = self.live.engines.settings.job_timeout_seconds, job.request
        timeout_seconds, deadline = asked["timeout_seconds"], asked["deadline"]
        if timeout_seconds is not None and timeout_seconds > limit:
            most = f"at most {limit:g} (job_timeout_seconds)"
            raise FieldProblem("timeout_seconds", timeout_seconds, most)
        if deadline is not None:
            ends = self.ends.foresee(product, job.owner, job.priority).ends
            if ends.low > read_time(deadline):
                at, low, high = (f"{show_time(one):%Y-%m-%dT%H:%M:%S.%fZ}" for one in ends)
                told = f"the job should end at {at}, and with 90% between {low} and {high}"
                raise FieldProblem("deadline", deadline, f"after {low}: {told}")

    async def _find_added(self, job_ids: Sequence[str]) -> None:
        """Let the jobs of a POST wait that were added although it has failed."""
        for job, product in await insist(self.live.read, job_ids):
            if job.state is JobState.QUEUED and self.live.find(job.id) is None:
                self.live.add(job, product)
        self.live.advance()

    async def cancel(self, job_id: str, owner: str | None = None) -> Job:
        """Cancel a job: a queued one at once, the running one as soon as the engine lets go.

        Raises:
            JobNotFound: There is no job of that id.
            JobStateConflict: The job has succeeded or failed already.
        """
        job = await run_to_end(self.jobs.request_cancel, job_id, owner)
        self.live.cancel(job)
        return job

    async def cancel_labelled(self, labels: Sequence[str], owner: str) -> int:
        """Cancel an owner's unfinished jobs that have all of some labels; returns how many."""
        count = 0
        for some in split(await run_to_end(self.jobs.list_labelled, labels, owner)):
            for job in await run_to_end(self.jobs.cancel_all, some):
                self.live.cancel(job)
                count += 1
        return count

    async def change_priority(self, job_id: str, priority: int, owner: str | None = None) -> Job:
        """Give a queued job another priority, which counts at once.

        Raises:
            JobNotFound: There is no job of that id.
            JobStateConflict: The job runs, or has ended.
        """
        job = await run_to_end(self.jobs.change_priority, job_id, priority, owner)
        if (live := self.live.find(job_id)) is None:
            return job  # it has ended meanwhile
        live.change_priority(priority)
        self.live.update(live, replace(live.job, priority=priority))
        return live.job

    async def get(self, job_id: str, owner: str | None = None) -> Job:
        """A job as it is now; raises JobNotFound if there is none of that id."""
        live = self.live.find(job_id)
        job = self.jobs.ended.find(job_id) if live is None else live.job
        # It may have ended a while ago, or wait for others, whose ends change its row first.
        if job is None or job.awaited or owner not in (None, job.owner):
            job = await run_to_end(self.jobs.get, job_id, owner)
        return job

    async def wait(
        self, job_id: str, *, owner: str | None = None, most_seconds: float | None = None
    ) -> Job:
        """Wait until a job has finished, and return it as it is then.

        Args:
            job_id: The job.
            owner: Whose it must be.
            most_seconds: How long to wait; None for as long as it takes.

        Raises:
            JobNotFound: There is no job of that id.
            Draining: The service stops before the job has finished.
        """
        with self.live.news.listen(job_id=job_id, owner=owner) as listener:
            job = await self.get(job_id, owner)
            with suppress(TimeoutError):
                async with asyncio.timeout(most_seconds):
                    while not job.state.finished:
                        waits = job.state is JobState.QUEUED
                        if listener.ended or (self.draining and waits):
                            raise self.live.engines.refuse()
                        job = next(iter(await listener.wait(None)), job)
            return job

    def begin_drain(self) -> None:
        """Take no new work from now on; running jobs go on, the queued ones stay queued."""
        self.live.engines.draining = True
        self._products.stop_waiting()
        for live in self.live.running:
            if not live.has_begun and live.task is not None:
                live.task.cancel()
        self.live.news.wake()

    async def drain(self, seconds: float) -> None:
        """Take no new work, and give the running jobs some seconds to finish."""
        self.begin_drain()
        ending: set[asyncio.Task[None]] = {asyncio.create_task(self.live.engines.wait_idle())}
        ending |= {live.task for live in self.live.running if live.task is not None}
        await asyncio.wait(ending, timeout=seconds)
        self.live.news.wake(ends=True)

    async def stop(self) -> None:
        """End now: jobs that still run go back to the queue, for the next start."""
        self.begin_drain()
        for task in (tasks := set(self.live.engines.tasks)):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.live.news.wake(ends=True)
