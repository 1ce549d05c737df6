"""One job's run: its tries, their deadline, its end.

Memory knows at once that a job runs; its row says so only when it has run for a while. So the row
of a short job is written when it is accepted and when it has ended, and not in between.
"""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from wavetrim.service.clock import read_clock
from wavetrim.service.engine.engine import Engine
from wavetrim.service.errors import ServiceError
from wavetrim.service.jobs.errors import JobStateConflict
from wavetrim.service.jobs.job import MOST_TRIES, Job
from wavetrim.service.jobs.lanes.lane import Lane
from wavetrim.service.jobs.lanes.turn import describe_timeout
from wavetrim.service.jobs.news import JobNews
from wavetrim.service.jobs.operands import Operands
from wavetrim.service.jobs.result import Result
from wavetrim.service.jobs.table.rows import succeed_job
from wavetrim.service.jobs.table.store import JobStore
from wavetrim.service.jobs.work import Work, check_files, prepare
from wavetrim.service.settings import Settings
from wavetrim.service.storage.errors import StorageFailed, StorageFull
from wavetrim.service.storage.matrices.kept import KeptMatrices
from wavetrim.service.storage.matrices.matrices import MatrixStore
from wavetrim.service.storage.matrices.matrix import Matrix
from wavetrim.service.threads import run_to_end

logger = logging.getLogger(__name__)

_NEWS_SECONDS: Final = 0.2
"""Time between two writes of a running job's state, plan and progress to the database; chosen."""


class JobRun:
    """Takes one queued job to its end.

    The first tries run as the request says, the last of several on the CPU alone.

    Args:
        job: The job, as it was read from the queue.
        operands: Its matrices, or the error of finding them.
        counted: Whether each try is written to the database before it begins. A job that ends the
            service at once would otherwise be tried for ever.
        jobs: The jobs.
        matrices: The matrices.
        engine: Computes it.
        lane: Where it waits for the engine.
        kept: Where matrices lie.
        news: Hears how far it has come.
        settings: How often and how long it is tried.

    Attributes:
        job: The job as it is now.
    """

    def __init__(
        self,
        job: Job,
        operands: Operands | ServiceError,
        *,
        counted: bool,
        jobs: JobStore,
        matrices: MatrixStore,
        engine: Engine,
        lane: Lane,
        kept: KeptMatrices,
        news: JobNews,
        settings: Settings,
    ) -> None:
        self.job = job
        self._operands = operands
        self._counted = counted
        self._jobs = jobs
        self._matrices = matrices
        self._engine = engine
        self._lane = lane
        self._kept = kept
        self._news = news
        self._settings = settings
        self._cancelled = asyncio.Event()
        self._written: Job | None = None
        jobs.running[job.id] = job  # from now on it does not count as waiting

    def cancel(self) -> None:
        """Stop the job as soon as the engine lets go of it."""
        self._cancelled.set()
        self._update(replace(self.job, cancel_requested=True))

    async def run(self) -> Job | None:
        """Run the job.

        Returns:
            The finished job; None when it was cancelled before it began.

        Raises:
            asyncio.CancelledError: The caller was cancelled; the job is in the queue again.
        """
        first = self.job.begin_try(read_clock())
        try:
            if self._counted and await run_to_end(self._jobs.keep_run, first) is None:
                return None
            self._update(first)
            return await self._run_started()
        except JobStateConflict:
            return None
        except asyncio.CancelledError:
            try:
                begun = max(first, self.job, key=lambda job: job.attempts)
                await run_to_end(self._jobs.release, begun)
            except SQLAlchemyError:
                # Its row says that it runs, or waits: the next start runs it again either way.
                logger.exception("job %s is left to the next start as it is", self.job.id)
            raise

    async def _run_started(self) -> Job | None:
        async with AsyncExitStack() as stack:
            try:
                if isinstance(self._operands, ServiceError):
                    raise self._operands
                work = await prepare(
                    self.job, self._operands, stack, matrices=self._matrices, kept=self._kept
                )
            except (ServiceError, OSError) as error:
                return await self._fail("storage", str(error))
            try:
                return await self._try_until_settled(work)
            finally:
                await work.result.end()

    async def _try_until_settled(self, work: Work) -> Job | None:
        while True:
            message = await self._try_once(work)
            if message["type"] == "succeeded":
                return await self._succeed(work.result, message)
            if message["type"] == "cancelled" or self._cancelled.is_set():
                return await run_to_end(self._jobs.cancel, self.job)
            kind, reason = message["kind"], message["message"]
            if not message["retryable"] or self.job.attempts >= MOST_TRIES:
                return await self._fail(kind, reason)
            try:
                # A file that was changed under the engine fails every other try, too.
                await run_to_end(check_files, self.job, self._matrices, work.mapped)
            except ServiceError as error:
                return await self._fail("storage", str(error))
            logger.warning("job %s, try %d: %s: %s", self.job.id, self.job.attempts, kind, reason)
            self._update(self.job.begin_try(read_clock()))
            if not await self._write():
                return None

    async def _try_once(self, work: Work) -> Mapping[str, Any]:
        """One try; returns its final message, whatever happens."""
        if self._cancelled.is_set():
            return {"type": "cancelled"}
        last = self.job.attempts >= MOST_TRIES
        work.result.begin_try()
        turn = self._lane.enter(
            replace(work.request, cpu_only=last),
            work.rooms,
            since=self.job.created_at,
            priority=self.job.priority,
            on_message=lambda message: self._take_message(message, work.result),
        )
        cancelled = asyncio.create_task(self._cancelled.wait())
        news = asyncio.create_task(self._tell_news())
        try:
            await self._wait(turn.begun, cancelled, timeout_seconds=None)
            await self._wait(turn.final, cancelled, self._settings.job_timeout_seconds)
            timed_out = not turn.final.done() and not self._cancelled.is_set()
            await self._lane.stop(turn)
        except asyncio.CancelledError:
            await self._lane.stop(turn)
            raise
        finally:
            cancelled.cancel()
            news.cancel()
            await asyncio.wait({news})
        message = turn.final.result()
        if message["type"] == "succeeded":
            changed = await run_to_end(work.mapped.find_changed) if work.mapped else None
            if changed is not None:
                return _describe_change(changed)
            timings = {"device_wait_seconds": turn.waited_seconds, **message["timings"]}
            return {**message, "timings": timings}
        if timed_out:
            limit = self._settings.job_timeout_seconds
            return describe_timeout(limit, has_gpu=bool(self._engine.devices), job=self.job.id)
        return message

    async def _wait(
        self,
        future: asyncio.Future[Any],
        cancelled: asyncio.Task[Any],
        timeout_seconds: float | None,
    ) -> None:
        """Wait for a part of a try, or until the job is cancelled."""
        first = asyncio.FIRST_COMPLETED
        await asyncio.wait({future, cancelled}, timeout=timeout_seconds, return_when=first)

    def _take_message(self, message: Mapping[str, Any], result: Result) -> None:
        """Remember plan and progress, and have final rows written."""
        match message["type"]:
            case "planned":
                self._update(replace(self.job, plan=message["plan"]))
            case "progress":
                job = replace(self.job, progress=message["progress"], rows_done=message["rows"])
                self._update(job)
            case "rows":
                result.take_final([range(*rows) for rows in message["final"]])
            case "again":
                result.begin_try()

    def _update(self, job: Job) -> None:
        self.job = self._jobs.running[job.id] = job
        self._news.tell(job)

    async def _tell_news(self) -> None:
        """Write how far the job has come, again and again, until cancelled.

        The first write comes late: it would take a core from a product that may end before it, and
        success writes plan and start as well.
        """
        while True:
            await asyncio.sleep(_NEWS_SECONDS)
            if self.job is self._written:
                continue
            try:
                if not await self._write():
                    self.cancel()
            except SQLAlchemyError:
                logger.exception("job %s: a message could not be kept", self.job.id)

    async def _write(self) -> bool:
        """Write how far the job has come; False if it was cancelled before it began."""
        self._written = self.job
        return await run_to_end(self._jobs.keep_run, self.job) is not None

    async def _succeed(self, result: Result, message: Mapping[str, Any]) -> Job | None:
        """Publish the product and end the job, both or neither."""
        ended: list[Job] = []

        def settle(connection: Connection) -> None:
            job = succeed_job(
                connection,
                self.job,
                result=result.id,
                plan=message["plan"],
                timings=message["timings"],
                verification=message["verification"],
            )
            ended.append(job)

        try:
            await result.publish(settle)
        except (OSError, StorageFull, StorageFailed) as error:
            return await self._fail("storage", f"the product cannot be stored: {error}")
        return ended[-1]

    async def _fail(self, kind: str, message: str) -> Job | None:
        logger.error("job %s failed: %s: %s", self.job.id, kind, message)
        return await run_to_end(self._jobs.fail, self.job, kind, message)


def _describe_change(matrix: Matrix) -> Mapping[str, Any]:
    """The failure of a product whose operand was changed under it."""
    message = f"the file of matrix {matrix.id} was changed while the product was computed"
    return {"type": "failed", "kind": "storage", "message": message, "retryable": True}
