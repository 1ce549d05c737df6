"""One job's run: its matrices are brought into memory, it is tried, it ends.

A job runs from when an engine has it; until then it is queued. Memory knows at once that it runs;
its row says so only when it has run for a while. So the row of a short job is written when it is
accepted and when it has ended, and not in between.
"""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import Any, Final

from sqlalchemy.exc import SQLAlchemyError

from wavetrim.service.clock import read_clock
from wavetrim.service.errors import ServiceError
from wavetrim.service.jobs.errors import JobStateConflict
from wavetrim.service.jobs.job import MOST_TRIES, Job
from wavetrim.service.jobs.lanes.attempt import Attempt
from wavetrim.service.jobs.live import JobParts, LiveJob
from wavetrim.service.jobs.operands import find_matrices
from wavetrim.service.jobs.table.changes import Success
from wavetrim.service.jobs.work import Work, check_files, find_changed, prepare
from wavetrim.service.storage.database.shared_commits import Together
from wavetrim.service.storage.errors import StorageFailed, StorageFull
from wavetrim.service.storage.matrices.draft import Draft
from wavetrim.service.threads import run_to_end

logger = logging.getLogger(__name__)

_SLOW_SECONDS: Final = 0.2
"""Time that a try has taken when its row says that it has begun; chosen."""


class Runner:
    """Takes queued jobs to their ends.

    The first tries run as the request says, the last of several on the CPU alone.

    Args:
        parts: What jobs meet on their way.
    """

    def __init__(self, parts: JobParts) -> None:
        self._jobs, self._live, self._matrices = parts.jobs, parts.live, parts.matrices
        self._engines, self._inline = parts.engines, parts.inline

    def stop(self, live: LiveJob, failure: tuple[str, str] | None = None) -> None:
        """Have a job end as soon as the engine lets go of it.

        Args:
            live: The job.
            failure: Kind and message of its failure; None if it is cancelled.
        """
        live.is_stopped, live.failure = True, live.failure or failure
        if failure is None and live.has_begun:
            self._live.update(live, replace(live.job, cancel_requested=True))
        self._engines.stop(live.attempt, "ended")

    async def run(self, live: LiveJob) -> Job | None:
        """Run a job.

        Returns:
            The finished job; None when it was cancelled before it began.

        Raises:
            asyncio.CancelledError: The caller was cancelled; the job is in the queue again.
        """
        first_attempts = live.job.attempts
        try:
            if live.failure is not None:
                return await self._end_stopped(live)
            if live.is_counted and not await self._write_try(live):
                return None
            return await self._prepare_and_run(live)
        except JobStateConflict:
            return None
        except asyncio.CancelledError:
            if live.has_begun and live.job.attempts > first_attempts:
                await self._release(live.job)
            raise
        finally:
            if live.attempt.queue is not None:
                self._engines.give_up(live.attempt)

    async def _release(self, job: Job) -> None:
        try:
            await run_to_end(self._jobs.break_off, job, counts=False)
        except SQLAlchemyError:
            # Its row says that it runs, or waits: the next start runs it again either way.
            logger.exception("job %s is left to the next start as it is", job.id)

    async def _prepare_and_run(self, live: LiveJob) -> Job | None:
        async with AsyncExitStack() as stack:
            try:
                if live.operands is None:
                    live.operands = await run_to_end(find_matrices, live.job, self._matrices)
                work = await prepare(live.job, live.operands, stack, matrices=self._matrices)
            except (ServiceError, OSError) as error:
                self._begin(live)  # this is a try, too
                return await self._fail(live, "storage", str(error))
            try:
                return await self._try_until_settled(live, work)
            finally:
                if not work.is_handed_over:
                    await work.draft.discard()

    async def _try_until_settled(self, live: LiveJob, work: Work) -> Job | None:
        while True:
            message = await self._try_once(live, work)
            live.is_computed = message["type"] == "succeeded"
            if live.is_inline:
                self._engines.on_left()
            if live.is_computed:
                return await self._succeed(live, work, message)
            if message["type"] == "cancelled" or live.is_stopped:
                return await self._end_stopped(live)
            if not live.has_begun:
                self._begin(live)  # it could not be planned, which is a try, too
            kind, reason, tries = message["kind"], message["message"], live.job.attempts
            if not message["retryable"] or tries >= MOST_TRIES:
                return await self._fail(live, kind, reason)
            try:
                # A file that was changed under the engine fails every other try, too.
                await run_to_end(check_files, live.job, self._matrices, work)
            except ServiceError as error:
                return await self._fail(live, "storage", str(error))
            logger.warning("job %s, try %d: %s: %s", live.job.id, tries, kind, reason)
            if not await self._write_try(live):
                return None

    async def _end_stopped(self, live: LiveJob) -> Job | None:
        """End a job that was cancelled, or has taken too long."""
        if live.failure is not None:
            return await self._fail(live, *live.failure)
        # One that was queued has ended when it was cancelled.
        return await run_to_end(self._jobs.cancel, live.job) if live.has_begun else None

    async def _try_once(self, live: LiveJob, work: Work) -> Mapping[str, Any]:
        """One try; returns its final message, whatever happens."""
        if live.is_stopped:
            return {"type": "cancelled"}
        if live.is_inline:
            self._begin(live)
            computed = self._inline.compute(work.request, work.extents)
            if computed is not None:
                return _add_wait(computed, 0.0)
            live.has_try = True
        work.draft.begin_anew()
        attempt = self._make_ready(live, work)
        try:
            message = await self._engines.run(attempt)
        except asyncio.CancelledError:
            await self._engines.end(attempt)
            raise
        finally:
            if live.writing is not None:  # it would come after the end that is written next
                await asyncio.wait({live.writing})
        if message["type"] != "succeeded":
            return message
        changed = None
        if work.files:
            changed = await run_to_end(find_changed, work, self._matrices.checks)
        if changed is None:
            return _add_wait(message, attempt.waited_seconds)
        reason = f"the file of matrix {changed.id} was changed while the product was computed"
        return {"type": "failed", "kind": "storage", "message": reason, "retryable": True}

    def _make_ready(self, live: LiveJob, work: Work) -> Attempt:
        """The next attempt; the last of several is the CPU's alone."""
        # The job that waits is the first try; it is the second at most if it was written before.
        tries = live.job.attempts + (not live.has_try)
        attempt = live.attempt
        if attempt.has_left:
            attempt = live.attempt = attempt.repeat()
        attempt.on_begin = partial(self._begin, live)
        attempt.on_slow, live.writing = partial(self._write_slow, live), None
        attempt.on_message = lambda message: self._take_message(live, message, work.draft)
        attempt.make_ready(replace(work.request, cpu_only=tries >= MOST_TRIES), work.extents)
        return attempt

    def _take_message(self, live: LiveJob, message: Mapping[str, Any], draft: Draft) -> None:
        """Remember plan and progress, and have final rows written."""
        match message["type"]:
            case "planned":
                self._live.update(live, replace(live.job, plan=message["plan"]))
            case "progress":
                progress, rows = message["progress"], message["rows"]
                self._live.update(live, replace(live.job, progress=progress, rows_done=rows))
            case "rows":
                draft.write_final([range(*rows) for rows in message["final"]])
            case "again":
                draft.begin_anew()

    def _begin(self, live: LiveJob) -> None:
        """An engine has the job."""
        if not live.has_try:
            self._live.update(live, live.job.begin_try(read_clock()))
        live.has_try = False
        seconds = live.job.request.get("timeout_seconds")
        if seconds is not None and live.timeout is None:
            failure = "timeout", f"the job ran for longer than {seconds:g} s (timeout_seconds)"
            loop = asyncio.get_running_loop()
            live.timeout = loop.call_later(seconds, self.stop, live, failure)

    async def _write_try(self, live: LiveJob) -> bool:
        """Write the next try before it begins; False if the job was cancelled meanwhile."""
        self._live.update(live, live.job.begin_try(read_clock()))
        live.has_try = True
        return await run_to_end(self._jobs.keep_run, live.job) is not None

    def _write_slow(self, live: LiveJob) -> None:
        """Have it written that a try has begun, once it has run for a while.

        Sooner, that would take a core from a product that may end before it.
        """
        attempt = live.attempt
        if attempt.sent_at is None or live.writing is not None:
            return
        if read_clock() - attempt.sent_at >= _SLOW_SECONDS:
            live.writing = asyncio.create_task(self._write_or_stop(live), name="job-news")

    async def _write_or_stop(self, live: LiveJob) -> None:
        try:
            if await run_to_end(self._jobs.keep_run, live.job) is None:
                self.stop(live)
        except SQLAlchemyError:
            logger.exception("job %s: its begin could not be written", live.job.id)
            live.writing = None  # the next look tries again

    async def _succeed(self, live: LiveJob, work: Work, message: Mapping[str, Any]) -> Job | None:
        """Publish the product and end the job, both or neither."""
        done = {name: message[name] for name in ("plan", "timings", "verification")}
        success = Success(replace(live.job, result=work.draft.matrix.id, **done))
        try:
            await work.draft.write_rest()
            work.is_handed_over = True  # whatever happens now, that ends the draft
            await work.draft.publish(settle=Together(self._jobs.endings.succeed, success))
        except (OSError, StorageFull, StorageFailed) as error:
            return await self._fail(live, "storage", f"the product cannot be stored: {error}")
        return success.job

    async def _fail(self, live: LiveJob, kind: str, message: str) -> Job | None:
        logger.error("job %s failed: %s: %s", live.job.id, kind, message)
        return await run_to_end(self._jobs.fail, live.job, kind, message)


def _add_wait(message: Mapping[str, Any], seconds: float) -> Mapping[str, Any]:
    """The message of success with how long the product has waited for its devices."""
    return {**message, "timings": {"device_wait_seconds": seconds, **message["timings"]}}
