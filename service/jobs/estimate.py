"""What goes before a job, and what is told of it.

Let the job begin at T. Of its own caller's products those go first whose ratio (`queue`) is higher
at T than the job's. Of every other caller the shortest products go first, until that caller has
been served for as long as the job's caller will have been at T:

    own(T)    = Σ seconds of own products with ratio(T) > the job's ratio(T)
    others(T) = Σ over callers: Σ seconds, until served ≥ served(own caller) + own(T)
    T         = now + (left + own(T) + others(T)) / abreast

*left* are the seconds that are left of what runs, *abreast* is how many products run at once. T is
on both sides, so it is computed from itself, three times at most. The job should begin at T, but
not before now + lead, and end after further seconds + trail, by what was learned (`past`).

What comes later and goes first is not foreseen. The ratios by which earlier answers were off tell
how much that matters: the interval is as wide as they say.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from wavetrim.service.jobs.past import Span
from wavetrim.service.jobs.queue import LEAST_SECONDS, PRIORITY_DOUBLES, Queue, find_ratio

if TYPE_CHECKING:
    from wavetrim.service.jobs.lanes.attempt import Attempt

_ROUNDS: Final = 3
"""How often T is computed. Chosen by simulation: it goes from side to side, and ends well after an
odd number."""

_MOST_GROUPS: Final = 16
"""Kinds of the caller's products, and of all others', that are looked at; of more, some stand for
all. Chosen, to bound the time of an answer."""

_FindSeconds = Callable[["Attempt"], float]

_age = attrgetter("since")


class _Group(NamedTuple):
    """Products of a caller that have prediction and priority in common, the oldest first."""

    waiting: Sequence["Attempt"]
    seconds: float
    times: int

    @property
    def stretch(self) -> float:
        """Predicted seconds as the order weighs them: of equal age the lower one goes first."""
        first = self.waiting[0]
        seconds = max(LEAST_SECONDS, first.predicted_seconds)
        return seconds / 2 ** (first.priority / PRIORITY_DOUBLES) if first.priority else seconds


class Ahead(NamedTuple):
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
    queue: Queue,
    find_seconds: _FindSeconds,
    *,
    now: float,
    left_seconds: float,
    abreast: int = 1,
) -> Ahead:
    """Find what goes before a job.

    Args:
        job: The job; it may wait in the queue.
        queue: What waits.
        find_seconds: Tells how long a product should take, by what was measured.
        now: UTC seconds.
        left_seconds: What is left of all that runs, together.
        abreast: How many products run at once.
    """
    own = _list_groups(queue, job.caller, _MOST_GROUPS, find_seconds)
    callers, times = _pick([one for one in queue.callers if one != job.caller], _MOST_GROUPS)
    most = _MOST_GROUPS // max(1, len(callers))
    others = [
        (queue.find_served(one), _list_groups(queue, one, most, find_seconds)) for one in callers
    ]
    ahead = Ahead(0, 0, left_seconds / abreast)
    for _ in range(_ROUNDS):
        count, seconds = _count_own(job, own, now + ahead.seconds)
        level = queue.find_served(job.caller) + seconds
        found = [_count_until(groups, level - served) for served, groups in others]
        seconds += left_seconds + times * sum(more for _, more in found)
        before = ahead
        ahead = Ahead(count, times * sum(one for one, _ in found), seconds / abreast)
        if ahead == before:
            break
    return ahead


def _list_groups(queue: Queue, caller: str, most: int, find_seconds: _FindSeconds) -> list[_Group]:
    """What waits of a caller, in at most some groups."""
    kinds, times = _pick(queue.list_kinds(caller), most)
    groups = [_Group(some, find_seconds(some[0]), times) for some in kinds]
    return sorted(groups, key=attrgetter("stretch"))


def _pick(all_: list[Any], most: int) -> tuple[list[Any], int]:
    """At most some of many, and how many each of them stands for."""
    times = -(-len(all_) // most) or 1
    return all_[::times], times


def _count_own(job: "Attempt", groups: Iterable[_Group], begin: float) -> tuple[int, float]:
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


def _count_until(groups: Sequence[_Group], most_seconds: float) -> tuple[int, float]:
    """How many products begin until some seconds are served, and their seconds."""
    count, seconds = 0, 0.0
    for group in groups:
        if seconds >= most_seconds:
            break
        wanted = math.ceil((most_seconds - seconds) / group.seconds)
        more = min(group.times * len(group.waiting), wanted)
        count += more
        seconds += more * group.seconds
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


def describe_wait(own: int, others: int, devices: str) -> str:
    """What a job waits for: products that go first or run, of its caller and of others."""
    parts = [
        f"{count} product{'s' * (count != 1)} of {whose}"
        for count, whose in ((own, "yours"), (others, "other callers"))
        if count
    ]
    return f"waits for {' and '.join(parts)} on {devices}" if parts else f"is next on {devices}"
