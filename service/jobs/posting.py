"""Posting: the checks of a request before it becomes a job."""

import math

from wavetrim.scheduler.planning.cache import PlanCache
from wavetrim.service.api.jobs.job_schemas import JobRequest
from wavetrim.service.engine.engine import Engine
from wavetrim.service.jobs.job import Job
from wavetrim.service.jobs.operands import Operands, check_operands, find_operands
from wavetrim.service.jobs.table.store import JobStore
from wavetrim.service.settings import Settings
from wavetrim.service.storage.matrices.matrices import MatrixStore
from wavetrim.service.telemetry.trace import trace_parent
from wavetrim.service.tenants.tenant import Tenant


class Posting:
    """Checks requests and makes them jobs. Thread-safe.

    Args:
        jobs: Keeps the jobs.
        matrices: Has their operands.
        engine: Has the profile with which a request's options are checked.
        settings: How many jobs may wait.
    """

    def __init__(
        self, jobs: JobStore, matrices: MatrixStore, engine: Engine, settings: Settings
    ) -> None:
        self._jobs = jobs
        self._matrices = matrices
        self._engine = engine
        self._most_queued = settings.max_queued_jobs
        self._plans = PlanCache(revises=False)

    def add(
        self,
        request: JobRequest,
        idempotency_key: str | None,
        tenant: Tenant,
        last_job_seconds: float,
    ) -> tuple[Job, Operands | None]:
        """Adds a job, as `Dispatcher.submit` says; a full queue asks for `last_job_seconds`.

        Returns:
            The job and its operands; None in their place if an earlier call made the job.
        """
        asked = request.model_dump()
        # A repeated POST gets its job even when an operand is gone by now.
        first = self._jobs.find_repeated(asked, idempotency_key, tenant.name)
        if first is not None:
            return first, None
        operands = find_operands(asked, self._matrices, tenant.sees)
        problem = check_operands(*operands, alpha=request.alpha, beta=request.beta)
        if self._engine.cpu_threads is not None:
            self._plans.choose(problem, self._engine.profiles.find(), request.options)
        job, created = self._jobs.add(
            asked,
            priority=request.priority,
            idempotency_key=idempotency_key,
            owner=tenant.name,
            trace=trace_parent.get(),
            max_queued=self._most_queued,
            retry_after_seconds=min(60, math.ceil(last_job_seconds)),
        )
        return job, operands if created else None
