"""Posting: requests are checked, and become jobs."""

import math
from collections.abc import Sequence

from wavetrim.scheduler.engine.messages import Operand, RunRequest
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.service.clock import read_clock, read_time
from wavetrim.service.errors import FieldProblem, QuotaReached
from wavetrim.service.jobs.errors import DeadlineMissed, QueueFull
from wavetrim.service.jobs.estimate import Expected
from wavetrim.service.jobs.lanes.attempt import Attempt
from wavetrim.service.jobs.live import LiveJobs
from wavetrim.service.jobs.operands import check_operands, find_matrices, find_operand, find_result
from wavetrim.service.jobs.request import JobOperand, JobRequest, make_product
from wavetrim.service.jobs.run import LiveJob
from wavetrim.service.jobs.table.changes import find_key
from wavetrim.service.jobs.table.rows import make_job
from wavetrim.service.telemetry.logs import trace_parent
from wavetrim.service.tenants.tenant import Tenant
from wavetrim.service.threads import run_to_end


async def check_requests(
    live: LiveJobs, requests: Sequence[JobRequest], key: str | None, tenant: Tenant
) -> list[LiveJob]:
    """Find the operands of requests, plan them, and make them jobs.

    Args:
        live: Makes the jobs, which do not live yet.
        requests: What is to be computed.
        key: The Idempotency-Key of the POST.
        tenant: Whose it is.

    Raises:
        ServiceError, FieldError: As `Dispatcher.submit_all`.
    """
    named = await _take_results(live, requests, tenant)
    ids = {one for each in named for one in each.values() if isinstance(one, str)}
    found = await find_matrices(live.matrices, ids, tenant.sees)
    posted, trace = [], trace_parent.get()
    for index, (request, each) in enumerate(zip(requests, named, strict=True)):
        operands = {
            field: find_operand(field, one, found) if isinstance(one, str) else one
            for field, one in each.items()
        }
        a, b, c = operands["a"], operands["b"], operands.get("c")
        problem, stack = check_operands(a, b, c, alpha=request.alpha, beta=request.beta)
        live.matrices.drafts.check_size(problem.m, problem.n, problem.dtype, stack)
        product = make_product(asked := request.model_dump(), list(operands.values()))
        await live.plans.plan_once(product)
        job = make_job(
            asked,
            shape=(problem.m, problem.n, problem.dtype, stack),
            owner=tenant.name,
            trace=trace,
            idempotency_key=key and find_key(key, tenant.name, index),
        )
        posted.append(live.make(job, product))
    _check_count(live, tenant, len(posted))
    _check_times(live, posted)
    return posted


async def _take_results(
    live: LiveJobs, requests: Sequence[JobRequest], tenant: Tenant
) -> list[dict[str, str | Operand]]:
    """What each request names, with their results in place of jobs."""
    named = [request.operands for request in requests]
    ids = {one.job for each in named for one in each.values() if isinstance(one, JobOperand)}
    found = await run_to_end(live.jobs.find, ids, tenant.sees) if ids else {}
    return [
        {
            field: one if isinstance(one, str) else find_result(field, one.job, found)
            for field, one in each.items()
        }
        for each in named
    ]


def _check_count(live: LiveJobs, tenant: Tenant, count: int) -> None:
    waiting = live.queued[tenant.name] + count
    most, quota = live.settings.max_queued_jobs, tenant.quota.queued_jobs
    if waiting > most:
        seconds = min(60, max(1, math.ceil(live.ends.find_left())))
        raise QueueFull("queued jobs", waiting, most, seconds)
    if quota is not None and waiting > quota:
        limit = f"at most {quota}, the key's quota (--max-queued-jobs)"
        raise QuotaReached("queued jobs", waiting, limit)


def _check_times(live: LiveJobs, posted: Sequence[LiveJob]) -> None:
    """Refuse a job that may run longer than any, or that should end after its deadline."""
    limit = live.settings.job_timeout_seconds
    for one in posted:
        asked = one.job.request
        timeout_seconds, deadline = asked["timeout_seconds"], asked["deadline"]
        if timeout_seconds is not None and timeout_seconds > limit:
            most = f"at most {limit:g} (job_timeout_seconds)"
            raise FieldProblem("timeout_seconds", timeout_seconds, most)
        if deadline is not None:
            ends = live.ends.foresee(one).ends
            if ends.low > read_time(deadline):
                raise DeadlineMissed(deadline, ends)


async def foresee(
    live: LiveJobs, problem: GemmProblem, options: PlanOptions, tenant: Tenant
) -> Expected:
    """What would be told of a product if the tenant posted it now."""
    m, n, k, dtype = problem.m, problem.n, problem.k, problem.dtype
    a, b, out = (Operand(0, 0, *size, dtype) for size in ((m, k), (k, n), (m, n)))
    product = RunRequest("", a, b, None, out, options=options)
    await live.plans.plan_once(product)
    seconds, now = live.plans.predict(product), read_clock()
    attempt = Attempt(product, caller=tenant.name, since=now, predicted_seconds=seconds)
    return live.ends.foresee(attempt)
