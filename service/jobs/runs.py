"""The jobs that run: begun, cancelled, and ended even when a run breaks off."""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from sqlalchemy.exc import SQLAlchemyError

from wavetrim.service.jobs.job import MOST_TRIES, Job, JobState
from wavetrim.service.jobs.queue import Waiting
from wavetrim.service.jobs.run import JobRun
from wavetrim.service.jobs.table.store import JobStore
from wavetrim.service.telemetry.metrics import Metrics
from wavetrim.service.telemetry.trace import trace_parent
from wavetrim.service.threads import run_to_end

if TYPE_CHECKING:
    from wavetrim.service.telemetry.traces import Traces

logger = logging.getLogger(__name__)

PAUSE_SECONDS: Final = 1.0
"""Between two tries to reach a database that does not answer."""


class JobRuns:
    """The runs of jobs, each a task. To be used from one event loop.

    Args:
        make_run: A `JobRun` of a job, its operands and whether it is `counted`.
        jobs: Keeps the jobs.
        metrics: Counts them.
        traces: Makes their spans; None without.
        on_end: Called when a run has ended, with the job's id and the job; None for a job that had
            ended before its run began.
    """

    def __init__(
        self,
        make_run: Callable[..., JobRun],
        jobs: JobStore,
        *,
        metrics: Metrics,
        traces: "Traces | None",
        on_end: Callable[[str, Job | None], None],
    ) -> None:
        self._make_run = make_run
        self._jobs = jobs
        self._metrics = metrics
        self._traces = traces
        self._on_end = on_end
        self._runs: dict[str, tuple[JobRun, asyncio.Task[None]]] = {}

    def __len__(self) -> int:
        return len(self._runs)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._runs

    @property
    def tasks(self) -> set[asyncio.Task[None]]:
        """The tasks of all runs."""
        return {task for _, task in self._runs.values()}

    @property
    def least_priority(self) -> int:
        """The lowest priority of a job that runs; there must be one."""
        return min(run.job.priority for run, _ in self._runs.values())

    def find(self, job_id: str) -> Job | None:
        """A job as it is now; None if it does not run."""
        return self._runs[job_id][0].job if job_id in self._runs else None

    def cancel(self, job_id: str) -> None:
        """Stop a job as soon as the engine lets go of it, if it runs."""
        if job_id in self._runs:
            self._runs[job_id][0].cancel()

    def begin(self, waiting: Waiting, *, counted: bool) -> None:
        """Begin a job.

        Args:
            waiting: The job and its operands.
            counted: Whether each try is written before it begins, as `JobRun` says.
        """
        job = waiting.job
        run = self._make_run(job, waiting.operands, counted=counted)
        task = asyncio.create_task(self._run(job, run), name="job")
        self._runs[job.id] = run, task

    async def _run(self, job: Job, run: JobRun) -> None:
        trace_parent.set(job.trace)  # of this task only
        ended: Job | None = None
        try:
            ended = await run.run()
        except Exception as error:
            logger.exception("job %s broke off", job.id)
            ended = await self._end_broken(run.job, error)
        finally:
            del self._runs[job.id], self._jobs.running[job.id]
        if ended is not None and ended.state.finished:
            self._record(ended)
        self._on_end(job.id, ended)

    async def _end_broken(self, job: Job, error: Exception) -> Job | None:
        """End a job whose run broke off, as soon as the database answers.

        After a database error the job is tried again; any other error is a fault of the service.
        """
        while True:
            try:
                if isinstance(error, SQLAlchemyError):
                    return await run_to_end(self._jobs.settle, job, MOST_TRIES)
                message = "an unexpected error; the service's log has the details"
                return await run_to_end(self._jobs.fail, job, "internal", message)
            except SQLAlchemyError:
                logger.exception("job %s cannot be ended yet", job.id)
                await asyncio.sleep(PAUSE_SECONDS)

    def _record(self, job: Job) -> None:
        """Count a job that has finished, and make its spans."""
        if self._traces is not None:
            self._traces.show_job(job)
        if job.started_at is not None:
            self._metrics.record_job_wait(max(0.0, job.started_at - job.created_at))
        if job.state is JobState.SUCCEEDED and job.timings is not None:
            predicted = (job.plan or {}).get("predicted", {}).get("total_seconds")
            self._metrics.record_success(job.timings, predicted)
        else:
            self._metrics.record_end(job.state)
