"""The jobs that have not ended, as the process knows them: one object a job.

A live job waits for the results of others, is queued, is brought into memory, runs, and has its
result written. The transaction in which a job ends changes the rows of those that wait for it
(`table/store.py`), so these are read after each end.
"""

from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from wavetrim.scheduler.engine.messages import Operand, RunRequest
from wavetrim.scheduler.errors import FieldError
from wavetrim.service.clock import read_clock, read_time
from wavetrim.service.jobs.ends import Ends
from wavetrim.service.jobs.job import Job, JobState
from wavetrim.service.jobs.lanes.engine_queue import EngineQueue
from wavetrim.service.jobs.news import JobNews
from wavetrim.service.jobs.operands import make_product
from wavetrim.service.jobs.plans import INLINE_SECONDS
from wavetrim.service.jobs.queue import Queue, make_failure
from wavetrim.service.jobs.run import LiveJob
from wavetrim.service.jobs.table.store import JobStore, insist
from wavetrim.service.storage.matrices.matrices import MatrixStore
from wavetrim.service.telemetry.logs import trace_parent

if TYPE_CHECKING:
    from wavetrim.service.telemetry.traces import Traces

INLINE_RUNS: Final = 64
"""Jobs at a time that the service computes itself, and whose results it writes. Chosen: what is
written together shares a commit."""

WRITING_RUNS: Final = 16
"""Jobs at a time whose results are written while others are computed; chosen, to bound memory."""

_NOTHING: Final = Operand(0, 0, 0, 0, "float32")
_OVERDUE: Final = make_failure("deadline", "the job did not end before its deadline")


class LiveJobs:
    """Lets jobs wait, begins as many as the engines can take, and ends them.

    To be used from one event loop.

    Attributes:
        jobs, matrices, engines: As given.
        news: Hears of each change.
        ends: Tells when they should end.
        inline_queue: Of the jobs that the service computes itself: they take no device.
        running: Those that were taken from a queue.
        queued: How many of each owner have not begun, or are being accepted.
    """

    def __init__(
        self,
        jobs: JobStore,
        matrices: MatrixStore,
        engines: EngineQueue,
        traces: "Traces | None" = None,
    ) -> None:
        self.jobs, self.matrices, self.engines = jobs, matrices, engines
        self._metrics, self._traces = engines.metrics, traces
        self._live: dict[str, LiveJob] = {}
        self.queued: Counter[str] = Counter()
        self.news, self.inline_queue = JobNews(), Queue()
        self.ends = Ends(engines, self)
        self.running: set[LiveJob] = set()

    def list_next(self, owner: str | None, most: int) -> list[Job]:
        """Some jobs of an owner, or of all, that are queued or run; those that run come first."""
        waiting = (one for one in self._live.values() if not (one.task or one.job.awaited))
        found = (live.job for live in chain(self.running, waiting))
        return list(islice((job for job in found if owner in (None, job.owner)), most))

    def find(self, job_id: str) -> LiveJob | None:
        """A job; None if it has ended, or is unknown."""
        return self._live.get(job_id)

    def read(self, ids: Collection[str] | None) -> list[tuple[Job, RunRequest]]:
        """Some jobs, and their products; None for all that have not ended.

        A product is empty while an operand of its job is not there.
        """
        jobs = self.jobs.find(ids).values()
        found = self.matrices.find({one for job in jobs for one in job.operands.values()})
        read = []
        for job in jobs:
            operands = [found[name] for name in job.operands.values() if name in found]
            is_whole = len(operands) == len(job.operands)
            read.append((job, make_product(job.request, operands if is_whole else 2 * [_NOTHING])))
        return read

    def add(self, job: Job, product: RunRequest, *, is_counted: bool = False) -> None:
        """A job lives from now on."""
        self._live[job.id] = live = LiveJob(
            product, caller=job.owner, since=job.created_at, priority=job.priority,
            predicted_seconds=self.engines.plans.predict(product),
            job=job, all=self, is_counted=is_counted,
        )  # fmt: skip
        self.queued[job.owner] += 1
        if (deadline := job.request["deadline"]) is not None:
            live.call_later(read_time(deadline) - read_clock(), self._end_overdue, live)
        if not job.awaited:
            self._enter_queue(live)
        self.update(live, job)
        if any(self.find(one) is None for one in job.awaited.values()):
            # It may have ended before this one lived.
            self.engines.start(self._look_at([job.id]), "jobs")

    def update(self, live: LiveJob, job: Job) -> None:
        """A job has changed; the first change that has it run lets others be queued.

        One that was cancelled as it began has ended already: nothing more is told of it.
        """
        if self.find(job.id) is not live:
            live.job = job
            return
        if job.state is JobState.RUNNING and not live.has_begun:
            self.queued[job.owner] -= 1
        live.job = job
        if live.has_begun:
            self.jobs.running[job.id] = job
        self.news.tell(job)

    def _enter_queue(self, live: LiveJob) -> None:
        """Let a job whose operands are there wait: the service computes the smallest itself."""
        live.request = replace(live.request, b_key=live.job.b)
        is_short = live.predicted_seconds <= INLINE_SECONDS
        live.is_inline = is_short and live.task is None and self.engines.inline.takes(live.request)
        (self.inline_queue if live.is_inline else self.engines.queue).add(live)

    async def _look_at(self, ids: Collection[str]) -> None:
        """Those of some jobs that wait for others: do they have all operands, or have ended?"""
        for job, product in await insist(self.read, ids):
            live = self.find(job.id)
            if live is None or not live.job.awaited:
                continue  # it is not added yet, or was cancelled meanwhile
            if job.state.finished:
                self._end(live, job)
            elif not job.awaited:
                live.request = product
                live.predicted_seconds = self.engines.plans.predict(product)
                self.update(live, replace(job, priority=live.job.priority))
                self._enter_queue(live)
        self.advance()

    async def predict_anew(self) -> None:
        """Plan the jobs that wait for the engine to start, once it has."""
        await self.engines.here.wait_ready()
        for live in tuple(self._live.values()):
            with suppress(FieldError):
                await self.engines.plans.plan_once(live.request)
            if live.queue is not None:
                live.queue.remove(live)
                live.predicted_seconds = self.engines.plans.predict(live.request)
                self._enter_queue(live)
        self.advance()

    def advance(self) -> None:
        """Begin the jobs that are next in the queues."""
        while self.inline_queue and not self.engines.draining:
            if sum(one.is_inline for one in self.running) >= INLINE_RUNS:
                break
            (attempt,) = self.inline_queue.list_first(1)
            self.inline_queue.begin(attempt)
            attempt.on_wanted()
        self.engines.want_next()

    def begin(self, live: LiveJob) -> None:
        """Bring a job into memory, unless that has begun, or many results are being written.

        One that is stopped only ends.
        """
        most = 2 * self.engines.most_runs + INLINE_RUNS + WRITING_RUNS
        has_room = live.is_inline or len(self.running) < most
        may_begin = live.stopped is not None or (has_room and not self.engines.draining)
        if live.task is None and may_begin:
            self.running.add(live)
            live.task = self.engines.start(self._run_to_end(live), "job")

    async def _run_to_end(self, live: LiveJob) -> None:
        trace_parent.set(live.job.trace)  # of this task only
        try:
            ended = await live.run_tries()
        finally:
            self.running.discard(live)
        if ended is None and self.find(live.job.id) is live:
            # It was cancelled, and nobody has told so: its row says how it has ended.
            ended = (await insist(self.jobs.find, [live.job.id])).get(live.job.id, live.job)
        if ended is not None and self.find(live.job.id) is live:  # nobody has told meanwhile
            if ended.state.finished:
                self._end(live, ended)
            else:
                self._remove(live)
                self.add(ended, live.request, is_counted=live.is_counted)
        self.advance()

    def cancel(self, job: Job) -> None:
        """The row of a job says that it is cancelled, or is to be."""
        if (live := self.find(job.id)) is None:
            return
        live.cancel()
        if job.state is JobState.CANCELLED:
            self._end(live, job)

    def _end_overdue(self, live: LiveJob) -> None:
        """End a job whose deadline has passed."""
        if self.engines.draining and not live.has_begun:
            return  # the next start ends it
        self.engines.stop(live, _OVERDUE)
        self.begin(live)

    def _end(self, live: LiveJob, ended: Job) -> None:
        """A job has ended: tell its callers, and the jobs that wait for its result."""
        self.ends.learn(live, ended)
        self._record(live, ended)
        self._remove(live)
        self.jobs.ended.keep(ended.id, ended)
        self.news.tell(ended)
        if followers := self.jobs.take_followers(ended.id):
            self.engines.start(self._look_at(followers), "jobs")

    def _remove(self, live: LiveJob) -> None:
        """A job has ended, or begins another life."""
        self.jobs.running.pop(live.job.id, None)
        for timer in live.timers:
            timer.cancel()
        if self._live.pop(live.job.id, None) is not None and not live.has_begun:
            self.queued[live.job.owner] -= 1

    def _record(self, live: LiveJob, job: Job) -> None:
        """Count a job that has finished, and make its spans."""
        if self._traces is not None and live.task is not None:
            self._traces.show_job(job)
        if job.started_at is not None:
            waited_seconds = max(0.0, job.started_at - job.created_at)
            self._metrics.queue_seconds.labels("jobs").observe(waited_seconds)
        if job.state is JobState.SUCCEEDED and job.timings is not None:
            self._metrics.record_success(job.timings, job.plan)
        else:
            self._metrics.jobs_finished.labels(job.state).inc()
