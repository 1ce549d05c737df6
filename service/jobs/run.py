"""One job that has not ended: it waits, is brought into memory, is tried, and ends.

A job runs from when an engine has it; until then it is queued. Memory knows at once that it runs;
its row says so only when it has run for a while. So the row of a short job is written when it is
accepted and when it has ended, and not in between.
"""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy.exc import SQLAlchemyError

from wavetrim.scheduler.engine.messages import Message
from wavetrim.service.clock import read_clock
from wavetrim.service.errors import ServiceError
from wavetrim.service.jobs.errors import JobStateConflict
from wavetrim.service.jobs.job import MOST_TRIES, Job, JobState
from wavetrim.service.jobs.lanes.attempt import Attempt
from wavetrim.service.jobs.table.store import Success
from wavetrim.service.jobs.work import Work, check_files, find_changed, prepare
from wavetrim.service.storage.database.shared_commits import Together
from wavetrim.service.storage.errors import StorageFailed, StorageFull
from wavetrim.service.threads import await_end, run_to_end

if TYPE_CHECKING:
    from wavetrim.service.jobs.estimate import Answer
    from wavetrim.service.jobs.live import LiveJobs

logger = logging.getLogger(__name__)

_SLOW_SECONDS: Final = 0.2
"""Time that a try has taken when its row says that it has begun; chosen."""


@dataclass(slots=True, eq=False)
class LiveJob(Attempt):
    """A job that has not ended, with its product, which is queued once the operands are there.

    The first tries run as the request says, the last of several on the CPU alone.

    Attributes:
        job: The job as it is now.
        all: All that have not ended, and what they meet on their way.
        is_counted: Whether each try is written to the database before it begins. A job that ends
            the service at once would otherwise be tried for ever.
        is_inline: Whether the service computes it itself, without an engine.
        task: Brings it into memory and runs it, once it was taken from the queue.
        work: What its tries use, once it is in memory.
        is_computed: Whether its product is computed: its result is being written.
        is_stopped: Whether it is to end as soon as the engine lets go of it.
        failure: Kind and message that it is to fail with then; None if it was cancelled.
        is_noted: Whether it is written that its try has begun.
        told: The first answer about its end, from which is learned; None if no engine was ready.
        deadline: Ends it at its deadline.
        timeout: Ends it when it has run for as long as it may.
    """

    _: KW_ONLY
    job: Job
    all: "LiveJobs"
    is_counted: bool = False
    is_inline: bool = False
    task: asyncio.Task[None] | None = None
    work: Work | None = None
    is_computed: bool = False
    is_stopped: bool = False
    failure: tuple[str, str] | None = None
    is_noted: bool = False
    told: "Answer | None" = None
    deadline: asyncio.TimerHandle | None = None
    timeout: asyncio.TimerHandle | None = None

    @property
    def has_begun(self) -> bool:
        """Whether an engine has it, or had it. Until then the job is queued."""
        return self.job.state is JobState.RUNNING

    def stop(self, failure: tuple[str, str] | None = None) -> None:
        """End as soon as the engine lets go of it: as cancelled, or with a kind and a message."""
        self.is_stopped, self.failure = True, self.failure or failure
        if failure is None and self.has_begun:
            self.all.update(self, replace(self.job, cancel_requested=True))
        self.all.engines.stop(self, "ended")

    async def run_tries(self) -> Job | None:
        """Run the job, once it was taken from the queue.

        Returns:
            The finished job; None when it was cancelled before it began.

        Raises:
            asyncio.CancelledError: The caller was cancelled; the job is in the queue again.
        """
        attempts = self.job.attempts
        try:
            if self.failure is not None:
                return await self._end_stopped()
            if not await self._note_try():
                return None
            return await self._prepare_and_try()
        except JobStateConflict:
            return None
        except asyncio.CancelledError:
            await self._release(attempts)
            raise
        finally:
            if self.queue is not None:
                self.all.engines.give_up(self)

    async def _note_try(self) -> bool:
        """Write the next try before it begins, if it counts; False if the job has ended."""
        if not self.is_counted:
            return True
        return await await_end(self.all.jobs.note_try(self.job.begin_try())) is not None

    async def _release(self, attempts: int) -> None:
        """Queue the job again, as if it had not begun."""
        try:
            await run_to_end(self.all.jobs.queue_again, self.job, attempts)
        except SQLAlchemyError:
            # Its row says that it waits: the next start runs it again.
            logger.exception("job %s is left to the next start as it is", self.job.id)

    async def _prepare_and_try(self) -> Job | None:
        async with AsyncExitStack() as stack:
            try:
                preparing = prepare(self.job, self.all.matrices)
                self.work = work = await stack.enter_async_context(preparing)
            except (ServiceError, OSError) as error:
                self.on_begin()  # this is a try, too
                return await self._fail("storage", str(error))
            return await self._try_until_settled(work)

    async def _try_until_settled(self, work: Work) -> Job | None:
        while True:
            tries = self.job.attempts + 1
            message = await self._try_once(work, tries)
            self.is_computed = message["type"] == "succeeded"
            if self.is_inline:
                self.all.advance()
            if self.is_computed:
                return await self._succeed(work, message)
            if message["type"] == "cancelled" or self.is_stopped:
                return await self._end_stopped()
            if self.job.attempts < tries:
                self.on_begin()  # it could not be planned, which is a try, too
            kind, reason = message["kind"], message["message"]
            if not message["retryable"] or tries >= MOST_TRIES:
                return await self._fail(kind, reason)
            try:
                # A file that was changed under the engine fails every other try, too.
                await run_to_end(check_files, work, self.all.matrices.checks)
            except ServiceError as error:
                return await self._fail("storage", str(error))
            logger.warning("job %s, try %d: %s: %s", self.job.id, tries, kind, reason)
            if not await self._note_try():
                return None

    async def _end_stopped(self) -> Job | None:
        """End a job that was cancelled, or has taken too long."""
        if self.failure is not None:
            return await self._fail(*self.failure)
        # One that was queued has ended when it was cancelled.
        return await run_to_end(self.all.jobs.end, self.job.cancel()) if self.has_begun else None

    async def _try_once(self, work: Work, number: int) -> Mapping[str, Any]:
        """One try; returns its final message, whatever happens."""
        if self.is_stopped:
            return {"type": "cancelled"}
        if self.is_inline and number == 1:
            computed = self.all.inline.compute(work.request, work.extents)
            if computed is not None:
                self.on_begin()
                return _add_wait(computed, 0.0)
        work.draft.begin_anew()
        self.is_noted = False
        self.make_ready(replace(work.request, cpu_only=number >= MOST_TRIES), work.extents)
        message = await self.all.engines.run(self)
        if message["type"] != "succeeded":
            return message
        changed = None
        if work.files:
            changed = await run_to_end(find_changed, work, self.all.matrices.checks)
        if changed is None:
            return _add_wait(message, self.waited_seconds)
        reason = f"the file of matrix {changed.id} was changed while the product was computed"
        return {"type": "failed", "kind": "storage", "message": reason, "retryable": True}

    def on_wanted(self) -> None:
        """It is the next one: bring it into memory."""
        self.all.begin(self)

    def on_begin(self) -> None:
        """An engine has the job."""
        self.all.update(self, self.job.begin_try())
        seconds = self.job.request.get("timeout_seconds")
        if seconds is not None and self.timeout is None:
            failure = "timeout", f"the job ran for longer than {seconds:g} s (timeout_seconds)"
            self.timeout = asyncio.get_running_loop().call_later(seconds, self.stop, failure)

    def on_message(self, message: Message) -> None:
        """Remember plan and progress, and have final rows written."""
        assert self.work is not None
        match message["type"]:
            case "planned":
                self.all.update(self, replace(self.job, plan=message["plan"]))
            case "progress":
                progress, rows = message["progress"], message["rows"]
                self.all.update(self, replace(self.job, progress=progress, rows_done=rows))
            case "rows":
                self.work.draft.write_final([range(*rows) for rows in message["final"]])
            case "again":
                self.work.draft.begin_anew()

    def on_slow(self) -> None:
        """Have it written that a try has begun, once it has run for a while.

        Sooner, that would take a core from a product that may end before it.
        """
        if self.sent_at is None or self.is_noted or read_clock() - self.sent_at < _SLOW_SECONDS:
            return
        self.is_noted = True
        self.all.jobs.note_try(self.job)

    async def _succeed(self, work: Work, message: Mapping[str, Any]) -> Job | None:
        """Publish the product and end the job, both or neither."""
        done = {name: message[name] for name in ("plan", "timings", "verification")}
        success = Success(replace(self.job, result=work.draft.matrix.id, **done))
        try:
            await work.draft.write_rest()
            work.is_handed_over = True  # whatever happens now, that ends the draft
            await work.draft.publish(settle=Together(self.all.jobs.succeed, success))
        except (OSError, StorageFull, StorageFailed) as error:
            return await self._fail("storage", f"the product cannot be stored: {error}")
        return success.job

    async def _fail(self, kind: str, message: str) -> Job | None:
        logger.error("job %s failed: %s: %s", self.job.id, kind, message)
        return await run_to_end(self.all.jobs.end, self.job.fail(kind, message))


def _add_wait(message: Mapping[str, Any], seconds: float) -> Mapping[str, Any]:
    """The message of success with how long the product has waited for its devices."""
    return {**message, "timings": {"device_wait_seconds": seconds, **message["timings"]}}
