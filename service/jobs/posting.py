"""Posting: requests are checked, and become jobs."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from wavetrim.scheduler.engine.messages import Operand, RunRequest
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.service.clock import read_clock, read_time
from wavetrim.service.errors import FieldProblem, QuotaReached
from wavetrim.service.jobs.ends import Ends
from wavetrim.service.jobs.errors import DeadlineMissed, QueueFull
from wavetrim.service.jobs.estimate import Expected
from wavetrim.service.jobs.job import Job
from wavetrim.service.jobs.lanes.attempt import Attempt
from wavetrim.service.jobs.live import JobParts, LiveJob
from wavetrim.service.jobs.operands import (
    Operands,
    check_operands,
    find_operand,
    find_result,
    find_stack,
    list_ids,
)
from wavetrim.service.jobs.request import JobOperand, JobRequest, make_product
from wavetrim.service.jobs.table.changes import find_key
from wavetrim.service.jobs.table.rows import make_job
from wavetrim.service.storage.matrices.matrix import Matrix
from wavetrim.service.telemetry.logs import trace_parent
from wavetrim.service.tenants.tenant import Tenant
from wavetrim.service.threads import run_to_end

_GONE: Final = (Operand(0, 0, 0, 0, "float32"),) * 2 + (None,)
"""Stands for operands that are gone: the job's run will find that, and fail."""


class Posting:
    """Checks requests, and makes them jobs.

    Args:
        parts: What jobs meet on their way; options that its plans cannot meet are refused.
        ends: Tells when they should end.
    """

    def __init__(self, parts: JobParts, ends: Ends) -> None:
        self._jobs, self._live, self._matrices = parts.jobs, parts.live, parts.matrices
        self._plans, self._settings, self._ends = parts.plans, parts.settings, ends

    async def check(
        self, requests: Sequence[JobRequest], key: str | None, tenant: Tenant
    ) -> list[LiveJob]:
        """Find the operands of requests, plan them, and make them jobs.

        Args:
            requests: What is to be computed.
            key: The Idempotency-Key of the POST.
            tenant: Whose it is.

        Raises:
            ServiceError: As `Dispatcher.submit_all`.
            FieldError: Likewise.
        """
        named = await self._take_results(requests, tenant)
        ids = {one for each in named for one in each.values() if isinstance(one, str)}
        found = self._matrices.find_known(ids, tenant.sees)
        if len(found) < len(ids):
            found = await run_to_end(self._matrices.find, ids, tenant.sees)
        posted, trace = [], trace_parent.get()
        for index, (request, each) in enumerate(zip(requests, named, strict=True)):
            a, b, c = (_find_named(field, each.get(field), found) for field in ("a", "b", "c"))
            assert a is not None
            assert b is not None
            problem, stack = check_operands(a, b, c, alpha=request.alpha, beta=request.beta)
            # A result that is larger than any matrix may be is refused now.
            self._matrices.drafts.describe(problem.m, problem.n, problem.dtype, stack=stack)
            asked = request.model_dump()
            product = sketch(asked, a, b, c)
            await self._plans.plan_once(product)
            job = make_job(
                asked,
                shape=(problem.m, problem.n, problem.dtype, stack),
                owner=tenant.name,
                trace=trace,
                idempotency_key=key and find_key(key, tenant.name, index),
            )
            operands: Operands | None = None
            if isinstance(a, Matrix) and isinstance(b, Matrix) and not isinstance(c, Operand):
                operands = a, b, c
            posted.append(self.make_live(job, operands, product))
        self._check_count(tenant, len(posted))
        self._check_times(posted)
        return posted

    def _check_count(self, tenant: Tenant, count: int) -> None:
        waiting, most = self._live.count_queued(tenant.name) + count, self._settings.max_queued_jobs
        if waiting > most:
            seconds = min(60, max(1, math.ceil(self._ends.find_left())))
            raise QueueFull("queued jobs", waiting, most, seconds)
        quota = tenant.quota.queued_jobs
        if quota is not None and waiting > quota:
            limit = f"at most {quota}, the key's quota (--max-queued-jobs)"
            raise QuotaReached("queued jobs", waiting, limit)

    def _check_times(self, posted: Sequence[LiveJob]) -> None:
        """Refuse a job that may run longer than any, or that should end after its deadline."""
        limit = self._settings.job_timeout_seconds
        for one in posted:
            asked = one.job.request
            timeout_seconds, deadline = asked["timeout_seconds"], asked["deadline"]
            if timeout_seconds is not None and timeout_seconds > limit:
                most = f"at most {limit:g} (job_timeout_seconds)"
                raise FieldProblem("timeout_seconds", timeout_seconds, most)
            if deadline is not None:
                ends = self._ends.foresee(one.attempt).ends
                if ends.low > read_time(deadline):
                    raise DeadlineMissed(deadline, ends)

    async def foresee(self, problem: GemmProblem, options: PlanOptions, tenant: Tenant) -> Expected:
        """What would be told of a product if the tenant posted it now."""
        product = sketch_problem(problem, options)
        await self._plans.plan_once(product)
        seconds, now = self._plans.predict(product), read_clock()
        attempt = Attempt(product, caller=tenant.name, since=now, predicted_seconds=seconds)
        return self._ends.foresee(attempt)

    async def _take_results(
        self, requests: Sequence[JobRequest], tenant: Tenant
    ) -> list[dict[str, str | Operand]]:
        """What each request names, with their results in place of jobs."""
        named = [request.operands for request in requests]
        ids = {one.job for each in named for one in each.values() if isinstance(one, JobOperand)}
        found = await run_to_end(self._jobs.find, ids, tenant.sees) if ids else {}
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
        """A job that has not ended, with its next attempt.

        Args:
            job: The job.
            operands: Its matrices, if all are there.
            product: Its product; None for that of its operands.
            is_counted: Whether each try is written before it begins.
        """
        product = product or sketch(job.request, *(operands or _GONE))
        attempt = Attempt(
            product, caller=job.owner, since=job.created_at, priority=job.priority,
            predicted_seconds=self._plans.predict(product),
        )  # fmt: skip
        return LiveJob(job, attempt, operands, is_counted)

    def read(self, ids: Collection[str] | None) -> list[tuple[Job, Operands | None]]:
        """Some jobs, and their operands, if all are there; None for all that have not ended."""
        jobs = self._jobs.list_unfinished() if ids is None else self._jobs.find(ids).values()
        found = self._matrices.find({one for job in jobs for one in list_ids(job)})
        return [(job, _find_all(job, found)) for job in jobs]


def _find_named(
    field: str, named: str | Operand | None, found: Mapping[str, Matrix]
) -> Matrix | Operand | None:
    return find_operand(field, named, found) if isinstance(named, str) else named


def _find_all(job: Job, found: Mapping[str, Matrix]) -> Operands | None:
    a, b = found.get(job.a), found.get(job.b)
    c = None if job.c is None else found.get(job.c)
    return None if a is None or b is None or (c is None) != (job.c is None) else (a, b, c)


def sketch(
    asked: Mapping[str, Any],
    a: Matrix | Operand,
    b: Matrix | Operand,
    c: Matrix | Operand | None,
) -> RunRequest:
    """The product of a job's request as it will be, once its matrices lie in memory."""
    first, second = _sketch_operand(a), _sketch_operand(b)
    third = None if c is None else _sketch_operand(c)
    out = Operand(0, 0, a.rows, b.columns, a.dtype, stack=find_stack(first, second, third))
    return make_product(asked, first, second, third, out)


def sketch_problem(problem: GemmProblem, options: PlanOptions) -> RunRequest:
    """A product that nobody has asked for yet."""
    m, n, k, dtype = problem.m, problem.n, problem.k, problem.dtype
    a, b, out = (Operand(0, 0, *size, dtype) for size in ((m, k), (k, n), (m, n)))
    return RunRequest("", a, b, None, out, options=options)


def _sketch_operand(matrix: Matrix | Operand) -> Operand:
    if isinstance(matrix, Operand):
        return matrix
    return Operand(
        0, 0, matrix.rows, matrix.columns, matrix.dtype, matrix.fortran_order, stack=matrix.stack
    )
