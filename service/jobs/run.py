"""One job on its way through the engine: its tries, their deadline, its end."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from wavetrim.scheduler.messages import Operand, RunRequest
from wavetrim.scheduler.wishes import Wishes
from wavetrim.service.engine.supervisor import Engine
from wavetrim.service.errors import ServiceError, StorageFull
from wavetrim.service.jobs.job import Job
from wavetrim.service.jobs.lane import Lane, describe_timeout
from wavetrim.service.jobs.result import Result, Work, begin_result
from wavetrim.service.jobs.store import JobStore
from wavetrim.service.settings import Settings
from wavetrim.service.storage.arena.extent import Hold
from wavetrim.service.storage.kept import KeptMatrices, locate
from wavetrim.service.storage.matrices import MatrixStore
from wavetrim.service.storage.matrix import Matrix
from wavetrim.service.storage.room import Room
from wavetrim.service.threads import run_to_end

logger = logging.getLogger(__name__)

_NEWS_SECONDS: Final = 0.2
"""So often are plan and progress of a running try written to the database."""


class JobRun:
    """Takes one queued job to its end.

    The first tries run as the request says, the last of several on the CPU alone.
    """

    def __init__(
        self,
        job: Job,
        jobs: JobStore,
        matrices: MatrixStore,
        *,
        engine: Engine,
        lane: Lane,
        kept: KeptMatrices,
        settings: Settings,
    ) -> None:
        self.job = job
        self._jobs = jobs
        self._matrices = matrices
        self._engine = engine
        self._lane = lane
        self._kept = kept
        self._settings = settings
        self._cancelled = asyncio.Event()
        self._plan: Mapping[str, Any] | None = None
        self._plan_kept: Mapping[str, Any] | None = None
        self._progress = self._progress_kept = 0.0

    def cancel(self) -> None:
        """Stop the job as soon as the engine lets go of it."""
        self._cancelled.set()

    async def run(self) -> Job | None:
        """Run the job.

        Returns:
            The finished job, or None when it was not queued any more.

        Raises:
            asyncio.CancelledError: The caller was cancelled; the job is in the queue again.
        """
        try:
            started = await run_to_end(self._jobs.start, self.job.id)
            if started is None:
                return None
            self.job = started
            return await self._run_started()
        except asyncio.CancelledError:
            await run_to_end(self._jobs.release, self.job.id)
            raise

    async def _run_started(self) -> Job | None:
        with ExitStack() as stack:
            try:
                work = await self._prepare(stack)
            except (ServiceError, OSError) as error:
                return await self._fail("storage", str(error))
            try:
                return await self._try_until_settled(work)
            finally:
                await work.result.end()

    async def _try_until_settled(self, work: Work) -> Job | None:
        while True:
            event = await self._try_once(work)
            if event["type"] == "succeeded":
                return await self._succeed(work.result, event)
            if event["type"] == "cancelled" or self._cancelled.is_set():
                return await run_to_end(self._jobs.cancel, self.job.id)
            kind, message = event["kind"], event["message"]
            if not event["retryable"] or self.job.attempts >= self._settings.job_attempts:
                return await self._fail(kind, message)
            try:
                # A file that was changed under the engine fails every other try, too.
                await run_to_end(self._check_files)
            except ServiceError as error:
                return await self._fail("storage", str(error))
            logger.warning("job %s, try %d: %s: %s", self.job.id, self.job.attempts, kind, message)
            again = await run_to_end(self._jobs.start_again, self.job.id)
            assert again is not None, "only this run ends a running job"
            self.job = again

    async def _try_once(self, work: Work) -> Mapping[str, Any]:
        """One try; whatever happens to it, it comes back with a final message."""
        if self._cancelled.is_set():
            return {"type": "cancelled"}
        last = self.job.attempts >= self._settings.job_attempts > 1
        turn = self._lane.enter(
            replace(work.request, cpu_only=last),
            work.rooms,
            since=self.job.created_at,
            priority=self.job.priority,
            on_event=self._take_event,
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
        event = turn.final.result()
        if event["type"] != "succeeded":
            await self._keep_news()
            if timed_out:
                limit = self._settings.job_timeout_seconds
                has_gpu = bool(self._engine.devices)
                return describe_timeout(limit, has_gpu=has_gpu, job=self.job.id)
        return event

    async def _wait(
        self,
        future: asyncio.Future[Any],
        cancelled: asyncio.Task[Any],
        timeout_seconds: float | None,
    ) -> None:
        """Wait for a part of a try, or until the job is cancelled."""
        first = asyncio.FIRST_COMPLETED
        await asyncio.wait({future, cancelled}, timeout=timeout_seconds, return_when=first)

    def _take_event(self, event: Mapping[str, Any]) -> None:
        """Remember the plan, and how far the product is."""
        if event["type"] == "planned":
            self._plan = event["plan"]
        else:
            self._progress = event["progress"]

    async def _tell_news(self) -> None:
        """Keep plan and progress every now and then, until cancelled.

        Not at once: each write waits for the disk and takes a core, beside a product that may be
        done before it. The plan of one that is done comes with its success.
        """
        while True:
            await asyncio.sleep(_NEWS_SECONDS)
            await self._keep_news()

    async def _keep_news(self) -> None:
        """Write what is new to the database, while the job is running."""
        plan, progress = self._plan, self._progress
        try:
            if plan is not None and plan is not self._plan_kept:
                await run_to_end(self._jobs.record_plan, self.job.id, plan)
                self._plan_kept = plan
            if progress != self._progress_kept:
                await run_to_end(self._jobs.record_progress, self.job.id, progress)
                self._progress_kept = progress
        except SQLAlchemyError:
            logger.exception("job %s: a message could not be kept", self.job.id)

    async def _prepare(self, stack: ExitStack) -> Work:
        """Bring the operands into memory and make room for the product.

        Args:
            stack: Lets go of the operands.

        Raises:
            ServiceError: A matrix is gone or damaged, or there is no room for the product.
        """
        job, asked = self.job, self.job.request
        matrices = await run_to_end(self._find_matrices)
        operands: list[Operand | None] = []
        rooms: list[Room] = []
        for matrix in matrices:
            hold = None if matrix is None else await self._kept.load(matrix, "job")
            if hold is not None:
                stack.callback(hold.release)
                rooms.append(hold.extent)
            operands.append(None if matrix is None else await self._locate(matrix, hold))
        a, b, c = operands
        assert a is not None
        assert b is not None
        result = await begin_result(
            self._matrices, self._kept, (a.rows, b.columns, a.dtype), asked.get("storage", "disk")
        )
        request = RunRequest(
            job=job.id,
            a=a,
            b=b,
            c=c,
            out=result.operand,
            wishes=Wishes.read(asked),
            **{name: asked[name] for name in ("alpha", "beta", "verify")},
        )
        return Work(request, (*rooms, *result.rooms), result)

    def _find_matrices(self) -> tuple[Matrix, Matrix, Matrix | None]:
        """A, B and C."""
        job = self.job
        a, b = self._matrices.get(job.a), self._matrices.get(job.b)
        return a, b, None if job.c is None else self._matrices.get(job.c)

    def _check_files(self) -> None:
        """Make sure that the operands that are on disk are as they were stored."""
        for matrix in self._find_matrices():
            if matrix is not None and matrix.place == "disk":
                self._matrices.checks.verify(matrix)

    async def _locate(self, matrix: Matrix, hold: Hold | None) -> Operand:
        """Where the engine finds a matrix: in the arena, or its file, which is checked."""
        if hold is not None:
            return locate(matrix, hold)
        await run_to_end(self._matrices.checks.verify, matrix)
        return Operand(**matrix.operand())

    async def _succeed(self, result: Result, event: Mapping[str, Any]) -> Job | None:
        """Publish the product and end the job, both or neither."""

        def settle(connection: Connection) -> None:
            self._jobs.succeed(
                connection,
                self.job.id,
                result=result.id,
                plan=event["plan"],
                timings=event["timings"],
                verification=event["verification"],
            )

        try:
            await result.publish(settle)
        except (OSError, StorageFull) as error:
            return await self._fail("storage", f"the product cannot be stored: {error}")
        return await run_to_end(self._jobs.get, self.job.id)

    async def _fail(self, kind: str, message: str) -> Job | None:
        logger.error("job %s failed: %s: %s", self.job.id, kind, message)
        return await run_to_end(self._jobs.fail, self.job, kind, message)
