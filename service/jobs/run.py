"""One job that has not ended: it waits, is brought into memory, is tried, and ends.

A job runs from when an engine has it; until then it is queued. Memory knows at once that it runs;
its row says so only when it has run for a while. So the row of a short job is written when it is
accepted and when it has ended, and not in between.

Operands in the arena were checked on their way there, and nobody else can write to them. A file can
be changed between its check and the last row of the product. So it is checked again after the
product: every change alters a file's times, so one with the same signature has not changed.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy.exc import SQLAlchemyError

from wavetrim.scheduler.engine.messages import Message, Operand
from wavetrim.service.errors import ServiceError
from wavetrim.service.jobs.errors import JobStateConflict
from wavetrim.service.jobs.estimate import Told
from wavetrim.service.jobs.job import MOST_TRIES, Job, JobState
from wavetrim.service.jobs.operands import find_stack, make_product
from wavetrim.service.jobs.queue import CANCELLED, Attempt, make_failure
from wavetrim.service.jobs.table.store import insist
from wavetrim.service.storage.database.shared_commits import Together
from wavetrim.service.storage.errors import MatrixNotFound, StorageFailed, StorageFull
from wavetrim.service.storage.matrices.draft import Draft, begin_draft
from wavetrim.service.storage.matrices.matrix import Matrix
from wavetrim.service.storage.matrices.npy import Layout
from wavetrim.service.threads import await_end, run_to_end

if TYPE_CHECKING:
    from wavetrim.service.jobs.live import LiveJobs

logger = logging.getLogger(__name__)

_SLOW_SECONDS: Final = 0.2
"""Time that a try has taken when its row says that it has begun; chosen."""

_BROKEN: Final = "an unexpected error; the service's log has the details"

_STEP_BYTES: Final = 8 * 2**20
"""Final bytes of a result on disk after which the engine sends a message about them."""


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
        files: Those that the engine reads from their files.
        draft: The result, which is not published yet.
        told: What was first told of its end, from which is learned; None if no engine was ready.
        timers: End it at its deadline, after its timeout, and write that it has begun.
    """

    _: KW_ONLY
    job: Job
    all: "LiveJobs"
    is_counted: bool = False
    is_inline: bool = False
    task: asyncio.Task[None] | None = None
    files: list[Matrix] = field(default_factory=list)
    draft: Draft = field(init=False)
    told: Told | None = None
    timers: list[asyncio.TimerHandle] = field(default_factory=list)

    @property
    def has_begun(self) -> bool:
        """Whether an engine has it, or had it. Until then the job is queued."""
        return self.job.state is JobState.RUNNING

    def cancel(self) -> None:
        """End as soon as the engine lets go of it."""
        if self.has_begun:
            self.all.update(self, replace(self.job, cancel_requested=True))
        self.all.engines.stop(self, CANCELLED)

    def call_later(self, seconds: float, function: Callable[..., object], *args: object) -> None:
        """Call something after some time, unless the job has ended by then."""
        self.timers.append(asyncio.get_running_loop().call_later(seconds, function, *args))

    async def run_tries(self) -> Job | None:
        """Run the job, once it was taken from the queue.

        Returns:
            The job as it has ended, or is queued again; None if its row says how it has ended.

        Raises:
            asyncio.CancelledError: The caller was cancelled; the job is in the queue again.
        """
        attempts = self.job.attempts
        try:
            if self.stopped is not None:
                return await self._end_stopped(self.stopped)
            if not await self._note_try():
                return None
            async with AsyncExitStack() as memory:
                await self._enter_memory(memory)
                return await self._try_until_settled()
        except asyncio.CancelledError:
            with suppress(SQLAlchemyError):  # the next start runs it again in any case
                await run_to_end(self.all.jobs.queue_again, self.job, attempts)
            raise
        except JobStateConflict:
            return None
        except Exception as error:
            return await self._break_off(error)
        finally:
            self.all.engines.give_up(self)

    async def _break_off(self, error: Exception) -> Job | None:
        """End the job, as something is wrong outside of its product, or queue it again."""
        if not self.has_begun:
            self.on_begin()  # this is a try, too
        if isinstance(error, ServiceError | OSError):
            return await self._fail("storage", str(error))
        logger.error("job %s broke off", self.job.id, exc_info=error)
        # After a database error it is tried again; any other is a fault of the service.
        if isinstance(error, SQLAlchemyError):
            return await insist(self.all.jobs.queue_again, self.job, self.job.attempts)
        return await self._fail("internal", _BROKEN)

    async def _note_try(self) -> bool:
        """Write the next try before it begins, if it counts; False if the job has ended."""
        if not self.is_counted:
            return True
        return await await_end(self.all.jobs.note_try(self.job.begin_try()))

    async def _enter_memory(self, stack: AsyncExitStack) -> None:
        """Bring the operands into memory, and make room for the product, until the stack is left.

        Raises:
            ServiceError: A matrix is gone or damaged, or there is no room for the product.
        """
        job, matrices, ids = self.job, self.all.matrices, list(self.job.operands.values())
        known = await matrices.recall(set(ids))
        if gone := set(ids) - known.keys():
            raise MatrixNotFound(gone.pop())
        found: list[Operand] = []
        extents = []
        for matrix in (known[name] for name in ids):
            if (hold := await matrices.load(matrix, "job")) is not None:
                stack.callback(hold.release)
                extents.append(hold.extent)
                found.append(matrix.locate(hold.extent))
            else:
                self.files.append(matrix)
                found.append(matrix.locate())
        first, second, *_ = found
        result = Layout(first.rows, second.columns, first.dtype, stack=find_stack(*found))
        on_disk = job.request["storage"] == "disk"
        described = matrices.describe(result, owner=job.owner, on_disk=on_disk)
        self.draft = draft = await begin_draft(matrices, described)
        stack.push_async_callback(draft.discard)
        # How many more final rows the engine tells of at a time.
        row_bytes = draft.matrix.size_bytes // max(1, draft.matrix.all_rows)
        row_step = 0 if draft.file is None else -(-_STEP_BYTES // row_bytes)
        product = make_product(job.request, found, draft.matrix.locate(draft.hold.extent))
        self.request = replace(product, job=job.id, row_step=row_step, b_key=job.b)
        self.extents = (*extents, draft.hold.extent)

    async def _try_until_settled(self) -> Job | None:
        while True:
            tries = self.job.attempts + 1
            message = await self._try_once(tries)
            if message["type"] == "succeeded":
                return await self._succeed(message)
            if not message.get("retryable") and message is self.stopped:
                return await self._end_stopped(message)
            if self.job.attempts < tries:
                self.on_begin()  # it could not be planned, which is a try, too
            kind, reason = message["kind"], message["message"]
            if not message["retryable"] or tries >= MOST_TRIES:
                return await self._fail(kind, reason)
            logger.warning("job %s, try %d: %s: %s", self.job.id, tries, kind, reason)
            if not await self._note_try():
                return None

    async def _end_stopped(self, message: Message) -> Job | None:
        """End a job that was cancelled, or has taken too long."""
        if message["type"] == "failed":
            return await self._fail(message["kind"], message["message"])
        # One that was queued has ended when it was cancelled.
        return await run_to_end(self.all.jobs.end, self.job.cancel()) if self.has_begun else None

    async def _try_once(self, number: int) -> Mapping[str, Any]:
        """One try; returns its final message.

        Raises:
            ServiceError: An operand's file is not as it was stored.
        """
        verify = self.all.matrices.checks.verify
        signed = [(one, await run_to_end(verify, one)) for one in self.files]
        if self.stopped is not None and not self.stopped.get("retryable"):
            return self.stopped
        if self.is_inline and number == 1:
            computed = self.all.engines.inline.compute(self.request, self.extents)
            if computed is not None:
                self.on_begin()
                return computed
        self.draft.begin_anew()
        self.make_ready(replace(self.request, cpu_only=number >= MOST_TRIES), self.extents)
        message = await self.all.engines.run(self)
        sign = self.all.matrices.checks.sign
        if message["type"] == "succeeded":
            for matrix, signature in signed:
                if await run_to_end(sign, matrix) != signature:
                    name = f"the file of matrix {matrix.id}"
                    reason = f"{name} was changed while the product was computed"
                    return make_failure("storage", reason, retryable=True)
        return message

    def on_wanted(self) -> None:
        """It is the next one: bring it into memory."""
        self.all.begin(self)

    def on_begin(self) -> None:
        """An engine has the job."""
        seconds = self.job.request["timeout_seconds"]
        if seconds is not None and not self.has_begun:
            reason = f"the job ran for longer than {seconds:g} s (timeout_seconds)"
            late = make_failure("timeout", reason)
            self.call_later(seconds, self.all.engines.stop, self, late)
        self.all.update(self, self.job.begin_try())
        self.call_later(_SLOW_SECONDS, self._note_begin)

    def on_message(self, message: Message) -> None:
        """Remember plan and progress, and have final rows written."""
        match message["type"]:
            case "planned":
                self.all.update(self, replace(self.job, plan=message["plan"]))
            case "progress":
                progress, rows = message["progress"], message["rows"]
                self.all.update(self, replace(self.job, progress=progress, rows_done=rows))
            case "rows":
                self.draft.write_final([range(*rows) for rows in message["final"]])
            case "again":
                self.draft.begin_anew()

    def _note_begin(self) -> None:
        """Have it written that a try has begun, once it has run for a while.

        Sooner, that would take a core from a product that may end before it.
        """
        if not (self.final.done() or self.is_inline):
            self.all.jobs.note_try(self.job)

    async def _succeed(self, message: Mapping[str, Any]) -> Job | None:
        """Publish the product and end the job, both or neither."""
        done = replace(
            self.job, result=self.draft.matrix.id, plan=message["plan"],
            timings={"device_wait_seconds": self.waited_seconds, **message["timings"]},
            verification=message["verification"],
        )  # fmt: skip
        try:
            _, ended = await self.draft.publish(settle=Together(self.all.jobs.succeed, done))
        except (OSError, StorageFull, StorageFailed) as error:
            return await self._fail("storage", f"the product cannot be stored: {error}")
        return ended

    async def _fail(self, kind: str, message: str) -> Job | None:
        logger.error("job %s failed: %s: %s", self.job.id, kind, message)
        return await insist(self.all.jobs.end, self.job.fail(kind, message))
