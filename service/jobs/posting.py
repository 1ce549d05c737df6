"""Posting: requests are checked, and become jobs; those of an earlier service are read."""

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from wavetrim.scheduler.engine.messages import Operand, RunRequest
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.service.clock import read_clock, read_time
from wavetrim.service.errors import FieldProblem, QuotaReached
from wavetrim.service.jobs.errors import DeadlineMissed, QueueFull
from wavetrim.service.jobs.estimate import Expected
from wavetrim.service.jobs.job import Job
from wavetrim.service.jobs.lanes.attempt import Attempt
from wavetrim.service.jobs.operands import (
    Operands,
    check_operands,
    find_all,
    find_operand,
    find_result,
    list_ids,
)
from wavetrim.service.jobs.request import JobOperand, JobRequest, make_product
from wavetrim.service.jobs.run import LiveJob
from wavetrim.service.jobs.table.changes import find_key
from wavetrim.service.jobs.table.rows import make_job
from wavetrim.service.storage.matrices.matrix import Matrix
from wavetrim.service.telemetry.trace import trace_parent
from wavetrim.service.tenants.tenant import Tenant
from wavetrim.service.threads import run_to_end

if TYPE_CHECKING:
    from wavetrim.service.jobs.live import LiveJobs

_GONE: Final = Operand(0, 0, 0, 0, "float32")
"""Stands for a matrix that is gone."""


class Posting:
    """Checks requests, and makes them jobs."""

    def __init__(self, live: "LiveJobs") -> None:
        self._live, self._matrices, self._plans = live, live.matrices, live.plans

    async def check(
        self, requests: Sequence[JobRequest], key: str | None, tenant: Tenant
    ) -> list[LiveJob]:
        """Find the operands of requests, plan them, and make them jobs; raises as `submit_all`."""
        named = await self._take_results(requests, tenant)
        ids = {one for each in named for one in each.values() if isinstance(one, str)}
        found = self._matrices.find_known(ids, tenant.sees)
        if len(found) < len(ids):
            found = await run_to_end(self._matrices.find, ids, tenant.sees)
        posted, trace = [], trace_parent.get()
        for index, (request, each) in enumerate(zip(requests, named, strict=True)):
            operands = {
                field: find_operand(field, one, found) if isinstance(one, str) else one
                for field, one in each.items()
            }
            a, b, c = operands["a"], operands["b"], operands.get("c")
            problem, stack = check_operands(a, b, c, alpha=request.alpha, beta=request.beta)
            asked = request.model_dump()
            product = make_product(asked, _sketch(a), _sketch(b), None if c is None else _sketch(c))
            await self._plans.plan_once(product)
            job = make_job(
                asked,
                shape=(problem.m, problem.n, problem.dtype, stack),
                owner=tenant.name,
                trace=trace,
                idempotency_key=key and find_key(key, tenant.name, index),
            )
            known: Operands | None = None
            if isinstance(a, Matrix) and isinstance(b, Matrix) and not isinstance(c, Operand):
                known = a, b, c
            posted.append(self.make_live(job, known, product))
        self._check_count(tenant, len(posted))
        self._check_times(posted)
        return posted

    def _check_count(self, tenant: Tenant, count: int) -> None:
        waiting = self._live.queued[tenant.name] + count
        most, quota = self._live.settings.max_queued_jobs, tenant.quota.queued_jobs
        if waiting > most:
            seconds = min(60, max(1, math.ceil(self._live.ends.find_left())))
            raise QueueFull("queued jobs", waiting, most, seconds)
        if quota is not None and waiting > quota:
            limit = f"at most {quota}, the key's quota (--max-queued-jobs)"
            raise QuotaReached("queued jobs", waiting, limit)

    def _check_times(self, posted: Sequence[LiveJob]) -> None:
        """Refuse a job that may run longer than any, or that should end after its deadline."""
        limit = self._live.settings.job_timeout_seconds
        for one in posted:
            asked = one.job.request
            timeout_seconds, deadline = asked["timeout_seconds"], asked["deadline"]
            if timeout_seconds is not None and timeout_seconds > limit:
                most = f"at most {limit:g} (job_timeout_seconds)"
                raise FieldProblem("timeout_seconds", timeout_seconds, most)
            if deadline is not None:
                ends = self._live.ends.foresee(one).ends
                if ends.low > read_time(deadline):
                    raise DeadlineMissed(deadline, ends)

    async def foresee(self, problem: GemmProblem, options: PlanOptions, tenant: Tenant) -> Expected:
        """What would be told of a product if the tenant posted it now."""
        m, n, k, dtype = problem.m, problem.n, problem.k, problem.dtype
        a, b, out = (Operand(0, 0, *size, dtype) for size in ((m, k), (k, n), (m, n)))
        product = RunRequest("", a, b, None, out, options=options)
        await self._plans.plan_once(product)
        seconds, now = self._plans.predict(product), read_clock()
        attempt = Attempt(product, caller=tenant.name, since=now, predicted_seconds=seconds)
        return self._live.ends.foresee(attempt)

    async def _take_results(
        self, requests: Sequence[JobRequest], tenant: Tenant
    ) -> list[dict[str, str | Operand]]:
        """What each request names, with their results in place of jobs."""
        named = [request.operands for request in requests]
        ids = {one.job for each in named for one in each.values() if isinstance(one, JobOperand)}
        found = await run_to_end(self._live.jobs.find, ids, tenant.sees) if ids else {}
        return [
            {
                field: one if isinstance(one, str) else find_result(field, one.job, found)
                for field, one in each.items()
            }
            for each in named
        ]

    def make_live(
        self,
        job: Job,
        operands: Operands | None,
        product: RunRequest | None = None,
        *,
        is_counted: bool = False,
    ) -> LiveJob:
        """A job that has not ended, with its next attempt."""
        product = product or sketch_job(job, operands)
        return LiveJob(
            product, caller=job.owner, since=job.created_at, priority=job.priority,
            predicted_seconds=self._plans.predict(product),
            job=job, all=self._live, operands=operands, is_counted=is_counted,
        )  # fmt: skip

    def read(self, ids: Collection[str] | None) -> list[tuple[Job, Operands | None]]:
        """Some jobs, and their operands, if all are there; None for all that have not ended."""
        store = self._live.jobs
        jobs = store.list_unfinished() if ids is None else store.find(ids).values()
        found = self._matrices.find({one for job in jobs for one in list_ids(job)})
        return [(job, find_all(job, found)) for job in jobs]


def sketch_job(job: Job, operands: Operands | None) -> RunRequest:
    """The product of a job as it will be, once its matrices lie in memory."""
    if operands is None:
        return make_product(job.request, _GONE, _GONE, None)
    a, b, c = operands
    return make_product(job.request, _sketch(a), _sketch(b), None if c is None else _sketch(c))


def _sketch(matrix: Matrix | Operand) -> Operand:
    """A matrix as an operand without an address."""
    if isinstance(matrix, Operand):
        return matrix
    return replace(matrix.locate(), slab=0, offset_bytes=0)
