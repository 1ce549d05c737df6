"""A job's way while it lives: it waits for operands, is queued, runs, and ends.

What changes the rows of jobs that wait for others is the transaction in which these end
(`table/changes.py`). So after each end the rows of those that wait for it are read.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar

from sqlalchemy.exc import SQLAlchemyError

from wavetrim.scheduler.errors import FieldError
from wavetrim.service.clock import read_clock, read_time
from wavetrim.service.engine.engine import Engine
from wavetrim.service.jobs.ends import Ends
from wavetrim.service.jobs.inline import INLINE_SECONDS
from wavetrim.service.jobs.job import Job, JobState
from wavetrim.service.jobs.live import JobParts, LiveJob
from wavetrim.service.jobs.operands import Operands
from wavetrim.service.jobs.posting import Posting
from wavetrim.service.jobs.run import Runner
from wavetrim.service.telemetry.logs import trace_parent
from wavetrim.service.threads import run_to_end

logger = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

INLINE_RUNS: Final = 64
"""Jobs at a time that the service computes itself. Chosen: what is written together shares a
commit."""

WRITING_RUNS: Final = 16
"""Jobs at a time whose results are written while others are computed; chosen, to bound memory."""

PAUSE_SECONDS: Final = 1.0
"""Between two tries to reach a database that does not answer."""

_OVERDUE: Final = "deadline", "the job did not end before its deadline"


class Lifecycle:
    """Lets jobs wait, begins as many as the engines can take, and ends them.

    To be used from one event loop.

    Args:
        parts: What jobs meet on their way.
        posting: Reads their rows and operands.
        ends: Tells when they should end.

    Attributes:
        may_begin: Whether jobs may begin at all.
        tasks: What is done besides: runs, and reading rows.
    """

    def __init__(self, parts: JobParts, posting: Posting, ends: Ends) -> None:
        self._jobs, self._live, self._plans = parts.jobs, parts.live, parts.plans
        self._engines, self._inline = parts.engines, parts.inline
        self._metrics, self._traces = parts.metrics, parts.traces
        self._posting, self._ends, self._runner = posting, ends, Runner(parts)
        self.may_begin = True
        self.tasks: set[asyncio.Task[None]] = set()
        parts.engines.on_left = self.advance

    def start(self, work: Coroutine[Any, Any, None], name: str = "jobs") -> asyncio.Task[None]:
        """Do something besides, until it is done or the service stops."""
        self.tasks.add(task := asyncio.create_task(work, name=name))
        task.add_done_callback(self.tasks.discard)
        return task

    def add(self, live: LiveJob) -> None:
        """A job lives from now on."""
        self._live.add(live)
        if (deadline := live.job.request.get("deadline")) is not None:
            seconds = max(0.0, read_time(deadline) - read_clock())
            loop = asyncio.get_running_loop()
            live.deadline = loop.call_later(seconds, self._end_overdue, live)
        if not live.job.awaited:
            self._let_wait(live)
            return
        self._live.update(live, live.job)
        if any(self._live.find(one) is None for one in live.job.awaited):
            # Those jobs may have ended before this one lived.
            self.start(self.look_at([live.job.id]))

    def _let_wait(self, live: LiveJob) -> None:
        """Let a job whose operands are there wait in the queue."""
        attempt = live.attempt
        attempt.request = replace(attempt.request, b_key=live.job.b)
        attempt.on_wanted = partial(self._begin, live)
        self._enter_queue(live)
        self._live.update(live, live.job)

    def _enter_queue(self, live: LiveJob) -> None:
        """Let a job wait in its queue: the service computes the smallest itself."""
        attempt = live.attempt
        is_short = attempt.predicted_seconds <= INLINE_SECONDS
        live.is_inline = is_short and live.task is None and self._inline.takes(attempt.request)
        (self._live.inline_queue if live.is_inline else self._engines.queue).add(attempt)

    async def look_at(self, ids: Collection[str]) -> None:
        """Those of some jobs that wait for others: do they have all operands, or have ended?"""
        for job, operands in await self.read(ids):
            live = self._live.find(job.id)
            if live is None or not live.job.awaited:
                continue  # it is not added yet, or was cancelled meanwhile
            if job.state.finished:
                self.end(live, job)
            elif not job.awaited:
                live.job = replace(job, priority=live.job.priority)
                live.operands = operands
                live.attempt = self._posting.make_live(live.job, operands).attempt
                self._let_wait(live)
        self.advance()

    async def read(self, ids: Collection[str]) -> list[tuple[Job, Operands | None]]:
        """Some jobs and their operands, as soon as the database answers."""
        return await _insist(self._posting.read, ids)

    async def predict_anew(self, engine: Engine) -> None:
        """Plan the jobs that wait for the engine to start, once it has."""
        await engine.wait_ready()
        for live in tuple(self._live):
            attempt = live.attempt
            with suppress(FieldError):
                await self._plans.plan_once(attempt.request)
            if attempt.queue is not None:
                attempt.queue.remove(attempt)
                attempt.predicted_seconds = self._plans.predict(attempt.request)
                self._enter_queue(live)
        self.advance()

    def advance(self) -> None:
        """Begin the jobs that are next in the queues."""
        if not self.may_begin:
            return
        inline = self._live.inline_queue
        while inline and self._live.count_inline() < INLINE_RUNS:
            (attempt,) = inline.list_first(1)
            inline.begin(attempt)
            attempt.on_wanted()
        engines = self._engines
        for attempt in engines.queue.list_first(max(1, engines.most_runs - engines.running)):
            attempt.on_wanted()

    def _begin(self, live: LiveJob) -> None:
        """Bring a job into memory, unless that has begun, or many results are being written."""
        most = 2 * self._engines.most_runs + INLINE_RUNS + WRITING_RUNS
        has_room = live.is_inline or len(self._live.running) < most
        if has_room and self.may_begin:
            self._run(live)

    def _run(self, live: LiveJob) -> None:
        if live.task is None:
            self._live.running.add(live)
            live.task = self.start(self._run_to_end(live), name="job")

    async def _run_to_end(self, live: LiveJob) -> None:
        trace_parent.set(live.job.trace)  # of this task only
        ended: Job | None = None
        try:
            ended = await self._runner.run(live)
        except Exception as error:
            logger.exception("job %s broke off", live.job.id)
            if not live.has_begun:
                self._live.update(live, live.job.begin_try(read_clock()))
            ended = await self._end_broken(live.job, error)
        finally:
            self._live.running.discard(live)
        if ended is None or ended.state.finished:
            self.end(live, ended)
        else:
            self._live.remove(live)
            again = self._posting.make_live(ended, live.operands, is_counted=live.is_counted)
            self.add(again)
        self.advance()

    async def _end_broken(self, job: Job, error: Exception) -> Job | None:
        """End a job whose run broke off, as soon as the database answers.

        After a database error the job is tried again; any other error is a fault of the service.
        """
        if isinstance(error, SQLAlchemyError):
            return await _insist(self._jobs.break_off, job, counts=True)
        message = "an unexpected error; the service's log has the details"
        return await _insist(self._jobs.fail, job, "internal", message)

    def cancel(self, job: Job) -> None:
        """The row of a job says that it is cancelled, or is to be."""
        if (live := self._live.find(job.id)) is None:
            return
        self._runner.stop(live)
        if job.state is JobState.CANCELLED:
            self.end(live, job)

    def _end_overdue(self, live: LiveJob) -> None:
        """End a job whose deadline has passed."""
        if not self.may_begin and not live.has_begun:
            return  # the next start ends it
        self._runner.stop(live, _OVERDUE)
        self._run(live)

    def end(self, live: LiveJob, ended: Job | None) -> None:
        """A job has ended: tell its callers, and the jobs that wait for its result.

        Args:
            live: The job.
            ended: The job as it has ended; None if its run found it ended: its row says how.
        """
        if self._live.find(live.job.id) is not live:
            return  # it was cancelled, and told so
        if ended is None:
            self.start(self._find_end(live))
            return
        self._ends.learn(live, ended)
        self._record(live, ended)
        self._live.end(live, ended)
        if followers := self._jobs.endings.take(ended.id):
            self.start(self.look_at(followers))

    async def _find_end(self, live: LiveJob) -> None:
        """End a job as its row says."""
        found = await self.read([live.job.id])
        self.end(live, found[0][0] if found else live.job)

    def _record(self, live: LiveJob, job: Job) -> None:
        """Count a job that has finished, and make its spans."""
        if self._traces is not None and live.task is not None:
            self._traces.show_job(job)
        if job.started_at is not None:
            self._metrics.record_job_wait(max(0.0, job.started_at - job.created_at))
        if job.state is JobState.SUCCEEDED and job.timings is not None:
            self._metrics.record_success(job.timings, job.plan)
        else:
            self._metrics.record_end(job.state)


async def _insist(work: Callable[P, R], *args: P.args, **named: P.kwargs) -> R:
    """Do something with the database, again until that answers."""
    while True:
        try:
            return await run_to_end(work, *args, **named)
        except SQLAlchemyError:
            logger.exception("the database does not answer")
            await asyncio.sleep(PAUSE_SECONDS)
