"""When jobs end: told of each while it waits and runs, and learned from each.

What is told when a job is accepted is remembered until it ends, and then compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from wavetrim.scheduler.engine.messages import Operand, RunRequest
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.service.clock import read_clock
from wavetrim.service.jobs.estimate import LEAST_AHEAD, Past, Span, Told, find_ahead
from wavetrim.service.jobs.job import Job, JobState
from wavetrim.service.jobs.lanes.engine_queue import EngineQueue
from wavetrim.service.jobs.plans import INLINE_SECONDS
from wavetrim.service.jobs.queue import Attempt
from wavetrim.service.jobs.run import LiveJob

if TYPE_CHECKING:
    from wavetrim.service.jobs.live import LiveJobs

_INLINE_SECONDS: Final = 2e-3
"""What a job takes that the service computes itself, before it is known; chosen."""

_MOST_AWAITED: Final = 64
"""Jobs that are looked at for one that waits for their results; chosen, to bound its time."""

_SPREAD: Final = (1.0, 0.5, 2.0)
"""Median and bounds of the time of such a job, over what is predicted; chosen."""

_YOUNG: Final = "; few jobs have ended since the service started, so the intervals are wide"


@dataclass(frozen=True, slots=True)
class Expected:
    """What is told of a job that has not ended.

    Attributes:
        position: How many products go before it; 0 if it is next, or runs.
        begins: When it begins.
        ends: When it ends.
        reason: Why, in a sentence.
    """

    position: int
    begins: Span
    ends: Span
    reason: str


class Ends:
    """Tells when jobs should end. To be used from one event loop."""

    def __init__(self, engines: EngineQueue, live: "LiveJobs") -> None:
        self._engines, self._live = engines, live
        # What the service computes itself takes as long as commits, and all else as long as its
        # product; so the answers about both are not off alike.
        self._pasts = {True: Past(_INLINE_SECONDS), False: engines.past}

    def foresee(self, product: RunRequest, caller: str, priority: int = 0) -> Expected:
        """What would be told of a product if a caller posted it now."""
        seconds = self._engines.plans.predict(product)
        candidate = Attempt(
            product, caller=caller, since=read_clock(), predicted_seconds=seconds,
            priority=priority,
        )  # fmt: skip
        return self._find(candidate, seconds <= INLINE_SECONDS)[0]

    async def foresee_product(
        self, problem: GemmProblem, options: PlanOptions, caller: str
    ) -> Expected:
        """The same of a product that may not be planned yet."""
        m, n, k, dtype = problem.m, problem.n, problem.k, problem.dtype
        a, b, out = (Operand(0, 0, *size, dtype) for size in ((m, k), (k, n), (m, n)))
        product = RunRequest("", a, b, None, out, options=options)
        await self._engines.plans.plan_once(product)
        return self.foresee(product, caller)

    def tell(self, job: Job) -> Expected | None:
        """When a job begins and ends; None if it has ended, or is not known here.

        The first answer about a job that waits is remembered, to learn from it.
        """
        one = self._live.find(job.id)
        if one is None or job.state.finished:
            return None
        if job.awaited:
            return self._tell_dependent(one)
        if job.state is JobState.RUNNING and job.started_at is not None:
            return self._tell_running(one, job.started_at)
        expected, told = self._find(one, one.is_inline)
        if one.told is None and self._engines.is_ready:
            one.told = told
        return expected

    def _tell_dependent(self, job: LiveJob) -> Expected:
        """The answer about a job that waits for the results of others, and for theirs in turn."""
        now, left = read_clock(), list(job.job.awaited.values())
        begins, own_seconds, before = Span(now, now, now), 0.0, set[str]()
        while left and len(before) < _MOST_AWAITED:
            if (name := left.pop()) in before or (other := self._live.find(name)) is None:
                continue
            before.add(name)
            if other.job.awaited:
                own_seconds += max(LEAST_AHEAD, other.predicted_seconds)
                left += other.job.awaited.values()
            elif (told := self.tell(other.job)) is not None:
                begins = Span(*map(max, begins, told.ends))
        begins = _delay(begins, own_seconds)
        results = "result of 1 job" if len(before) == 1 else f"results of {len(before)} jobs"
        reason = f"waits for the {results}{_note(self._pasts[False])}"
        ends = _delay(begins, max(LEAST_AHEAD, job.predicted_seconds))
        return Expected(len(before), begins, ends, reason)

    def find_left(self) -> float:
        """Seconds until the next product should begin."""
        running = self._engines.list_running()
        now = read_clock()
        return sum(self._find_left(attempt, now) for attempt in running) / _count_abreast(running)

    def learn(self, one: LiveJob, job: Job) -> None:
        """Learn from a job that has ended."""
        begun_at, ended_at = job.started_at, job.finished_at
        first_try = job.state is JobState.SUCCEEDED and job.attempts == 1
        if not first_try or begun_at is None or ended_at is None:
            return
        past, told = self._pasts[one.is_inline], one.told
        computed_at = begun_at if one.is_inline else one.ended_at
        if computed_at is not None:
            past.trails.add(one.kind, ended_at - computed_at)
        if told is None:
            return
        if not told.before:
            past.leads.add(None, begun_at - told.at)
        elif one.is_inline:
            each_seconds = (ended_at - told.at) / (told.before + 1)
            past.learn_run(one, each_seconds)
        past.learn_end(told, begun=begun_at, ended=ended_at)

    def _find(self, job: Attempt, is_inline: bool) -> tuple[Expected, Told]:
        """The answer about a job that waits, with and without what earlier ones were off by."""
        now, past, running = read_clock(), self._pasts[is_inline], list[Attempt]()
        seconds = past.find_seconds(job)
        if is_inline:
            queue = self._live.inline_queue
            count = sum(one.is_inline for one in self._live.running if one is not job)
            left_seconds, seconds = count * seconds, 0.0
        else:
            queue, running = self._engines.queue, self._engines.list_running()
            count = len(running)
            left_seconds = sum(self._find_left(attempt, now) for attempt in running)
        ahead = find_ahead(
            job, queue, past,
            now=now, left_seconds=left_seconds, abreast=_count_abreast(running),
        )  # fmt: skip
        begin = now + max(ahead.seconds, past.leads.find(None, 0.0))
        end = begin + seconds + past.trails.find(job.kind, 0.0)
        reason = "waits for the engine, which starts"
        if self._engines.is_ready:
            own = sum(attempt.caller == job.caller for attempt in running)
            others = ahead.others + len(running) - own
            reason = _describe_wait(ahead.own + own, others, self._engines.devices)
        position, spans = ahead.own + ahead.others, past.calibrate(now, begin, end)
        told = Told(now, begin, end, position + count)
        return Expected(position, *spans, reason + _note(past)), told

    def _find_left(self, attempt: Attempt, now: float) -> float:
        """What is left of a product that runs; a late one goes on for as long as it is late."""
        seconds = self._pasts[False].find_seconds(attempt)
        began_at = attempt.begun_at or attempt.sent_at or now
        return max(LEAST_AHEAD, abs(seconds - (now - began_at)))

    def _tell_running(self, one: LiveJob, started_at: float) -> Expected:
        """The answer about a job that runs, or whose result is written."""
        now, past = read_clock(), self._pasts[one.is_inline]
        if one.is_inline:
            end, reason = now, "is computed by the service itself"
        elif one.ended_at is not None:
            end, reason = one.ended_at, "its result is being written"
        else:
            end, reason = now + self._find_left(one, now), f"runs on {self._engines.devices}"
        _, ends = past.calibrate(now, now, end + past.trails.find(one.kind, 0.0))
        begins = Span(started_at, started_at, started_at)
        return Expected(0, begins, ends, reason + _note(past))


def _describe_wait(own: int, others: int, devices: str) -> str:
    """What a job waits for: products that go first or run, of its caller and of others."""
    parts = [
        f"{count} product{'s' * (count != 1)} of {whose}"
        for count, whose in ((own, "yours"), (others, "other callers"))
        if count
    ]
    return f"waits for {' and '.join(parts)} on {devices}" if parts else f"is next on {devices}"


def _count_abreast(running: Sequence[Attempt]) -> int:
    """How many products run at once: those that wait at an engine for its devices do not."""
    return max(1, sum(attempt.begun_at is not None for attempt in running))


def _note(past: Past) -> str:
    return _YOUNG if past.is_young else ""


def _delay(span: Span, seconds: float) -> Span:
    """A time some predicted seconds later."""
    return Span(*(one + factor * seconds for one, factor in zip(span, _SPREAD, strict=True)))
