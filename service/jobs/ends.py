"""When jobs end: told of each while it waits and runs, and learned from each.

What is told when a job is accepted is remembered until it ends, and then compared.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from wavetrim.scheduler.engine.messages import Operand, RunRequest
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.service.clock import read_clock
from wavetrim.service.jobs.estimate import (
    Answer,
    Expected,
    Group,
    Others,
    describe_wait,
    find_ahead,
)
from wavetrim.service.jobs.inline import INLINE_SECONDS
from wavetrim.service.jobs.job import Job, JobState
from wavetrim.service.jobs.lanes.attempt import Attempt
from wavetrim.service.jobs.lanes.engine_queue import EngineQueue
from wavetrim.service.jobs.past import LEAST_AHEAD, Past, Span
from wavetrim.service.jobs.queue import Queue
from wavetrim.service.jobs.run import LiveJob

if TYPE_CHECKING:
    from wavetrim.service.jobs.live import LiveJobs

KEPT_SECONDS: Final = 0.25
"""How long the first answer about a job is given again; chosen."""

_MOST_GROUPS: Final = 16
"""Kinds of the caller's products, and of all others', that are looked at; of more, some stand for
all. Chosen, to bound the time of an answer."""

_INLINE_SECONDS: Final = 2e-3
"""What a job takes that the service computes itself, before it is known; chosen."""

_MOST_AWAITED: Final = 64
"""Jobs that are looked at for one that waits for their results; chosen, to bound its time."""

_SPREAD: Final = (1.0, 0.5, 2.0)
"""Median and bounds of the time of such a job, over what is predicted; chosen."""

_YOUNG: Final = "; few jobs have ended since the service started, so the intervals are wide"


class Ends:
    """Tells when jobs should end. To be used from one event loop."""

    def __init__(self, engines: EngineQueue, live: "LiveJobs") -> None:
        self._engines, self._live = engines, live
        # What the service computes itself takes as long as commits, and all else as long as its
        # product; so the answers about both are not off alike.
        self._pasts = {True: Past(_INLINE_SECONDS), False: engines.past}

    def foresee(self, candidate: Attempt) -> Expected:
        """What would be told of a product if it were posted now."""
        return self._find(candidate, candidate.predicted_seconds <= INLINE_SECONDS).expected

    async def foresee_product(
        self, problem: GemmProblem, options: PlanOptions, caller: str
    ) -> Expected:
        """What would be told of a product if a caller posted it now."""
        m, n, k, dtype = problem.m, problem.n, problem.k, problem.dtype
        a, b, out = (Operand(0, 0, *size, dtype) for size in ((m, k), (k, n), (m, n)))
        product, plans = RunRequest("", a, b, None, out, options=options), self._engines.plans
        await plans.plan_once(product)
        seconds = plans.predict(product)
        attempt = Attempt(product, caller=caller, since=read_clock(), predicted_seconds=seconds)
        return self.foresee(attempt)

    def tell(self, job: Job) -> Expected | None:
        """When a job begins and ends; None if it has ended, or is not known here.

        The first answer about a job that waits is remembered, to learn from it.
        """
        one = self._live.find(job.id)
        if one is None or job.state.finished:
            return None
        if job.awaited:
            return self._tell_dependent(one)
        now = read_clock()
        if job.state is JobState.RUNNING and job.started_at is not None:
            return self._tell_running(one, now, job.started_at)
        if one.told is not None and now - one.told.at <= KEPT_SECONDS:
            return one.told.expected
        answer = self._find(one, one.is_inline)
        if one.told is None and self._engines.is_ready:
            one.told = answer
        return answer.expected

    def _tell_dependent(self, job: LiveJob) -> Expected:
        """The answer about a job that waits for the results of others, and for theirs in turn."""
        now, left = read_clock(), list(job.job.awaited)
        begins, own_seconds, before = Span(now, now, now), 0.0, set[str]()
        while left and len(before) < _MOST_AWAITED:
            if (name := left.pop()) in before or (other := self._live.find(name)) is None:
                continue
            before.add(name)
            if other.job.awaited:
                own_seconds += max(LEAST_AHEAD, other.predicted_seconds)
                left += other.job.awaited
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
        if one.is_inline and told.before:
            each_seconds = (ended_at - told.at) / (told.before + 1)
            past.learn_run(one.kind, one.predicted_seconds, each_seconds)
        past.learn_end((told.at, told.begin, told.end), begun=begun_at, ended=ended_at)

    def _find(self, job: Attempt, is_inline: bool) -> Answer:
        """The answer about a job that waits."""
        now, past, running = read_clock(), self._pasts[is_inline], list[Attempt]()
        seconds = past.find_seconds(job.kind, job.predicted_seconds)
        if is_inline:
            queue, count = self._live.inline_queue, sum(one.is_inline for one in self._live.running)
            left_seconds, seconds = count * seconds, 0.0
        else:
            queue, running = self._engines.queue, self._engines.list_running()
            count = len(running)
            left_seconds = sum(self._find_left(attempt, now) for attempt in running)
        ahead = find_ahead(
            job, _list_groups(queue, job.caller, past, _MOST_GROUPS),
            _list_others(queue, job.caller, past), served_seconds=queue.find_served(job.caller),
            now=now, left_seconds=left_seconds, abreast=_count_abreast(running),
        )  # fmt: skip
        position = ahead.own + ahead.others
        begin = now + ahead.seconds
        end = begin + seconds + past.trails.find(job.kind, 0.0)
        reason = "waits for the engine, which starts"
        if self._engines.is_ready:
            own = ahead.own + sum(attempt.caller == job.caller for attempt in running)
            others = position + len(running) - own
            reason = describe_wait(own, others, self._engines.devices)
        expected = Expected(position, *past.calibrate(now, begin, end), reason + _note(past))
        return Answer(now, position + count, begin, end, expected)

    def _find_left(self, attempt: Attempt, now: float) -> float:
        """What is left of a product that runs; a late one goes on for as long as it is late."""
        seconds = self._pasts[False].find_seconds(attempt.kind, attempt.predicted_seconds)
        began_at = attempt.begun_at or attempt.sent_at or now
        return max(LEAST_AHEAD, abs(seconds - (now - began_at)))

    def _tell_running(self, one: LiveJob, now: float, started_at: float) -> Expected:
        """The answer about a job that runs, or whose result is written."""
        past = self._pasts[one.is_inline]
        if one.is_inline:
            end, reason = now, "is computed by the service itself"
        elif one.ended_at is not None:
            end, reason = one.ended_at, "its result is being written"
        else:
            left = self._find_left(one, now)
            end, reason = now + left, f"runs on {self._engines.devices}"
        end += past.trails.find(one.kind, 0.0)
        _, ends = past.calibrate(now, now, end)
        begins = Span(started_at, started_at, started_at)
        return Expected(0, begins, ends, reason + _note(past))


def _list_others(queue: Queue, caller: str, past: Past) -> list[Others]:
    """All other callers of whom products wait, or some that stand for all."""
    callers = [one for one in queue.callers if one != caller]
    times = -(-len(callers) // _MOST_GROUPS) or 1
    looked = callers[::times]
    most = _MOST_GROUPS // max(1, len(looked))
    return [
        Others(queue.find_served(one), _list_groups(queue, one, past, most), times)
        for one in looked
    ]


def _list_groups(queue: Queue, caller: str, past: Past, most: int) -> list[Group]:
    """What waits of a caller, in at most some groups."""
    kinds = queue.list_kinds(caller)
    step = -(-len(kinds) // most) or 1
    groups = [
        Group(some, past.find_seconds(some[0].kind, some[0].predicted_seconds), step)
        for some in kinds[::step]
    ]
    return sorted(groups, key=attrgetter("stretch"))


def _count_abreast(running: Sequence[Attempt]) -> int:
    """How many products run at once: those that wait at an engine for its devices do not."""
    return max(1, sum(attempt.begun_at is not None for attempt in running))


def _note(past: Past) -> str:
    return _YOUNG if past.is_young else ""


def _delay(span: Span, seconds: float) -> Span:
    """A time some predicted seconds later."""
    return Span(*(one + factor * seconds for one, factor in zip(span, _SPREAD, strict=True)))
