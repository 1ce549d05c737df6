"""Posting: the checks of requests before they become jobs."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wavetrim.scheduler.engine.messages import Operand, RunRequest
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.service.clock import read_clock, read_time
from wavetrim.service.errors import FieldProblem, QuotaReached
from wavetrim.service.jobs.ends import Ends
from wavetrim.service.jobs.errors import DeadlineMissed, QueueFull
from wavetrim.service.jobs.estimate import Expected
from wavetrim.service.jobs.job import Job, Shape
from wavetrim.service.jobs.lanes.turn import Turn
from wavetrim.service.jobs.live import LiveJobs
from wavetrim.service.jobs.operands import (
    Operands,
    Promised,
    check_operands,
    find_operand,
    find_result,
    list_ids,
)
from wavetrim.service.jobs.plans import Plans
from wavetrim.service.jobs.request import JobOperand, JobRequest
from wavetrim.service.jobs.stacks import find_stack, fold
from wavetrim.service.jobs.table.adding import find_key
from wavetrim.service.jobs.table.rows import make_row
from wavetrim.service.jobs.table.store import JobStore
from wavetrim.service.settings import Settings
from wavetrim.service.storage.matrices.matrices import MatrixStore
from wavetrim.service.storage.matrices.matrix import Matrix
from wavetrim.service.telemetry.trace import trace_parent
from wavetrim.service.tenants.tenant import Tenant
from wavetrim.service.threads import run_to_end


@dataclass(frozen=True, slots=True)
class Posted:
    """A request whose operands fit.

    Attributes:
        request: The request.
        asked: The same, ready for JSON.
        shape: Rows, columns, element type and stack of its product.
        operands: Its matrices; None if one of them is the result of a job that has not ended.
        product: The product as it will be, once its matrices lie in memory.
    """

    request: JobRequest
    asked: Mapping[str, Any]
    shape: Shape
    operands: Operands | None
    product: RunRequest


class Posting:
    """Checks requests, and makes them rows.

    Args:
        jobs: Keeps the jobs.
        live: Those that have not ended.
        matrices: Has their operands.
        plans: Plans them: options that cannot be met are refused.
        ends: Tells when they should end.
        settings: How many may wait, and how long one may run.
    """

    def __init__(
        self,
        jobs: JobStore,
        live: LiveJobs,
        matrices: MatrixStore,
        *,
        plans: Plans,
        ends: Ends,
        settings: Settings,
    ) -> None:
        self._jobs, self._live = jobs, live
        self._matrices = matrices
        self._plans, self._ends = plans, ends
        self._settings = settings

    async def check(self, requests: Sequence[JobRequest], tenant: Tenant) -> list[Posted]:
        """Find the operands of requests, and plan them; raises as `Dispatcher.submit_all`."""
        named = await self._take_results(requests, tenant)
        ids = {one for each in named for one in each.values() if isinstance(one, str)}
        found = self._matrices.find_known(ids, tenant.sees)
        if len(found) < len(ids):
            found = await run_to_end(self._matrices.find, ids, tenant.sees)
        posted = []
        for request, each in zip(requests, named, strict=True):
            a, b, c = (_find_named(field, each.get(field), found) for field in ("a", "b", "c"))
            assert a is not None
            assert b is not None
            problem, stack = check_operands(a, b, c, alpha=request.alpha, beta=request.beta)
            shape = problem.m, problem.n, problem.dtype, stack
            asked, b_key = request.model_dump(), each["b"]
            product = sketch((a, b, c), asked, b_key if isinstance(b_key, str) else None)
            await self._plans.plan_once(product)
            operands: Operands | None = None
            if isinstance(a, Matrix) and isinstance(b, Matrix) and not isinstance(c, Promised):
                operands = a, b, c
            posted.append(Posted(request, asked, shape, operands, product))
        self._check_count(tenant, len(posted))
        self._check_times(posted, tenant)
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

    def _check_times(self, posted: Sequence[Posted], tenant: Tenant) -> None:
        """Refuse a job that may run longer than any, or that should end after its deadline."""
        limit = self._settings.job_timeout_seconds
        for one in posted:
            timeout_seconds, deadline = one.request.timeout_seconds, one.request.deadline
            if timeout_seconds is not None and timeout_seconds > limit:
                most = f"at most {limit:g} (job_timeout_seconds)"
                raise FieldProblem("timeout_seconds", timeout_seconds, most)
            if deadline is not None:
                ends = self._foresee(one.product, tenant, one.request.priority).ends
                if ends.low > read_time(deadline):
                    raise DeadlineMissed(deadline, ends)

    async def foresee(self, problem: GemmProblem, options: PlanOptions, tenant: Tenant) -> Expected:
        """What would be told of a product if the tenant posted it now."""
        product = sketch_problem(problem, options)
        await self._plans.plan_once(product)
        return self._foresee(product, tenant)

    def _foresee(self, product: RunRequest, tenant: Tenant, priority: int = 0) -> Expected:
        seconds, now = self._plans.predict(product), read_clock()
        turn = Turn(
            product, caller=tenant.name, since=now, predicted_seconds=seconds, priority=priority
        )
        return self._ends.foresee(turn)

    async def _take_results(
        self, requests: Sequence[JobRequest], tenant: Tenant
    ) -> list[dict[str, str | Promised]]:
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

    def make_rows(
        self, posted: Sequence[Posted], key: str | None, tenant: Tenant
    ) -> list[dict[str, Any]]:
        """The rows of new jobs, of one POST with an Idempotency-Key or without."""
        return [
            make_row(
                one.asked,
                shape=one.shape,
                owner=tenant.name,
                trace=trace_parent.get(),
                idempotency_key=key and find_key(key, tenant.name, index),
            )
            for index, one in enumerate(posted)
        ]

    def read_queued(self) -> list[tuple[Job, Operands | None]]:
        """All jobs that wait, and their operands; None in place of operands that are not there."""
        return self._find_operands(self._jobs.list_queued())

    def read(self, ids: Collection[str]) -> list[tuple[Job, Operands | None]]:
        """Some jobs, by their ids, and their operands, as `read_queued`."""
        return self._find_operands(list(self._jobs.find(ids).values()))

    def _find_operands(self, jobs: Sequence[Job]) -> list[tuple[Job, Operands | None]]:
        found = self._matrices.find({one for job in jobs for one in list_ids(job)})
        return [(job, _find_all(job, found)) for job in jobs]


def _find_named(
    field: str, named: str | Promised | None, found: Mapping[str, Matrix]
) -> Matrix | Promised | None:
    return find_operand(field, named, found) if isinstance(named, str) else named


def _find_all(job: Job, found: Mapping[str, Matrix]) -> Operands | None:
    a, b = found.get(job.a), found.get(job.b)
    c = None if job.c is None else found.get(job.c)
    return None if a is None or b is None or (c is None) != (job.c is None) else (a, b, c)


def sketch(
    operands: tuple[Matrix | Promised, Matrix | Promised, Matrix | Promised | None] | None,
    asked: Mapping[str, Any],
    b_key: str | None,
) -> RunRequest:
    """A job's product as it will be, once its matrices lie in memory; empty without operands.

    Args:
        operands: A, B and C.
        asked: The job's request.
        b_key: Id of B, once that is a matrix.
    """
    a = b = Operand(0, 0, 0, 0, "float32")
    c = None
    if operands is not None:
        a, b = _sketch_operand(operands[0]), _sketch_operand(operands[1])
        c = None if operands[2] is None else _sketch_operand(operands[2])
    out = Operand(0, 0, a.rows, b.columns, a.dtype, stack=find_stack(a, b, c))
    request = RunRequest(
        "", a, b, c, out, alpha=asked["alpha"], beta=asked["beta"], verify=asked["verify"],
        options=PlanOptions.read(asked), b_key=b_key,
    )  # fmt: skip
    return fold(request)


def sketch_problem(problem: GemmProblem, options: PlanOptions) -> RunRequest:
    """A product that nobody has asked for yet."""
    m, n, k, dtype = problem.m, problem.n, problem.k, problem.dtype
    a, b, out = (Operand(0, 0, *size, dtype) for size in ((m, k), (k, n), (m, n)))
    return RunRequest("", a, b, None, out, options=options)


def _sketch_operand(matrix: Matrix | Promised) -> Operand:
    return Operand(
        0, 0, matrix.rows, matrix.columns, matrix.dtype, matrix.fortran_order, stack=matrix.stack
    )
