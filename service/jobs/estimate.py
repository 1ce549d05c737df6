"""What goes before a job, and what is told of it. Pure.

Let the job begin at T. Of its own caller's products those go first whose ratio (`queue`) is higher
at T than the job's. Of every other caller the shortest products go first, until that caller has
been served for as long as the job's caller will have been at T:

    own(T)    = Σ seconds of own products with ratio(T) > the job's ratio(T)
    others(T) = Σ over callers: Σ seconds, until served ≥ served(own caller) + own(T)
    T         = now + (left + own(T) + others(T)) / abreast

*left* are the seconds that are left of what runs, *abreast* is how many products run at once. T is
on both sides, so it is computed again from itself until it changes little. The job should end at
T + seconds + trail, by what was learned (`past`).

What comes later and goes first is not foreseen. The ratios by which earlier answers were off tell
how much that matters: the interval is as wide as they say.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from wavetrim.service.jobs.past import Span
from wavetrim.service.jobs.queue import LEAST_SECONDS, PRIORITY_DOUBLES, find_ratio

if TYPE_CHECKING:
    from wavetrim.service.jobs.lanes.attempt import Attempt

_MOST_ROUNDS: Final = 3
"""How often T is computed; chosen: it changes little after that."""

_age = attrgetter("since")


class Group(NamedTuple):
    """Products of a caller that have prediction and priority in common.

    Attributes:
        waiting: The products, the oldest first.
        seconds: How long each should take, by what was measured.
        times: How many such groups it stands for.
    """

    waiting: Sequence["Attempt"]
    seconds: float
    times: int = 1

    @property
    def stretch(self) -> float:
        """Predicted seconds as the order weighs them: of equal age the lower one goes first."""
        first = self.waiting[0]
        seconds = max(LEAST_SECONDS, first.predicted_seconds)
        return seconds / 2 ** (first.priority / PRIORITY_DOUBLES) if first.priority else seconds


class Others(NamedTuple):
    """Another caller.

    Attributes:
        served_seconds: What it was served.
        groups: What of it waits, by `stretch`.
        times: How many such callers it stands for.
    """

    served_seconds: float
    groups: Sequence[Group]
    times: int = 1


@dataclass(frozen=True, slots=True)
class Ahead:
    """What goes before a job.

    Attributes:
        own: Waiting products of its caller that go first.
        others: Those of other callers.
        seconds: How long all of these, and the rest of what runs, should take.
    """

    own: int
    others: int
    seconds: float


def find_ahead(
    job: "Attempt",
    own: Sequence[Group],
    others: Sequence[Others],
    *,
    served_seconds: float,
    now: float,
    left_seconds: float,
    abreast: int = 1,
) -> Ahead:
    """Find what goes before a job.

    Args:
        job: The job; it may be among its caller's products.
        own: What waits of its caller.
        others: The other callers.
        served_seconds: What its caller was served.
        now: UTC seconds.
        left_seconds: What is left of all that runs, together.
        abreast: How many products run at once.
    """
    ahead = Ahead(0, 0, left_seconds / abreast)
    for _ in range(_MOST_ROUNDS):
        own_count, own_seconds = _count_own(job, own, now + ahead.seconds)
        served = served_seconds + own_seconds
        others_count, seconds = 0, left_seconds + own_seconds
        for one in others:
            count, more = _count_until(one.groups, served - one.served_seconds)
            others_count += one.times * count
            seconds += one.times * more
        before, ahead = ahead, Ahead(own_count, others_count, seconds / abreast)
        if abs(ahead.seconds - before.seconds) <= 0.01 * before.seconds:
            break
    return ahead


def _count_own(job: "Attempt", groups: Iterable[Group], begin: float) -> tuple[int, float]:
    """How many of its caller's go before a job that begins at some time, and their seconds."""
    ratio = find_ratio(job, begin)
    count, seconds = 0, 0.0
    for group in groups:
        first = group.waiting[0]
        if first.predicted_seconds == job.predicted_seconds and first.priority == job.priority:
            since = job.since
        else:  # solved for the `since` with which both ratios are equal
            since = begin + max(LEAST_SECONDS, first.predicted_seconds) - ratio * group.stretch
        before = group.times * bisect_left(group.waiting, since, key=_age)
        count += before
        seconds += before * group.seconds
    return count, seconds


def _count_until(groups: Sequence[Group], most_seconds: float) -> tuple[int, float]:
    """How many products begin until some seconds are served, and their seconds."""
    count, seconds = 0, 0.0
    if most_seconds <= 0:
        return count, seconds
    for group in groups:
        wanted = math.ceil((most_seconds - seconds) / group.seconds)
        more = min(group.times * len(group.waiting), wanted)
        count += more
        seconds += more * group.seconds
        if seconds >= most_seconds:
            break
    return count, seconds


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


@dataclass(frozen=True, slots=True)
class Answer:
    """What was found of a job that waits, and what was told of it.

    Attributes:
        at: When that was, UTC seconds.
        before: How many products go before it, or run.
        begin: When it should begin.
        end: When it should end.
        expected: What is told of it.
    """

    at: float
    before: int
    begin: float
    end: float
    expected: Expected


def describe_wait(own: int, others: int, devices: str) -> str:
    """What a job waits for: products that go first or run, of its caller and of others."""
    parts = [
        f"{count} product{'s' * (count != 1)} of {whose}"
        for count, whose in ((own, "yours"), (others, "other callers"))
        if count
    ]
    return f"waits for {' and '.join(parts)} on {devices}" if parts else f"is next on {devices}"
