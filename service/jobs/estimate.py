"""How long jobs take and when they begin: what goes before one, and what those that ended teach.

Let the job begin at T. Of its own caller's products those go first whose ratio (`queue`) is higher
at T than the job's. Of every other caller the shortest products go first, until that caller has
been served for as long as the job's caller will have been at T:

    own(T)    = Σ seconds of own products with ratio(T) > the job's ratio(T)
    others(T) = Σ over callers: Σ seconds, until served ≥ served(own caller) + own(T)
    T         = now + (left + own(T) + others(T)) / abreast

*left* are the seconds that are left of what runs, *abreast* is how many products run at once. T is
on both sides, so it is computed from itself, three times at most. The job should begin at T, but
not before now + lead, and end after further seconds + trail. These are learned, until the process
ends:

1. *Seconds.* A product takes what its plan predicts, times how long products of its kind took
   lately. A kind is an element type, sizes rounded to powers of two, and the devices asked for. A
   new kind has the factor of all kinds.

       seconds = predicted · median(took / predicted)

2. *Beside the product.* A job with nothing ahead begins some time after it was accepted, and its
   result is written after its product: the medians *lead* and *trail*.

3. *How sure.* A job that has ended tells by what ratio the answer at its acceptance was off:

       r = (ended − accepted) / (told − accepted)

   The next ones lie with 90% between the 5% and 95% quantiles of the last 60 ratios. This is split
   conformal prediction (V. Vovk and others, 2005), which supposes only that the next job is like
   the last ones. An answer outside of its interval is moved to the interval's end. Before there are
   19 ratios, too few for 90%, an interval reaches from a fourth of the time to four times. When a
   job begins lies between quantiles, too, those of

       (begun − told begin) / (told end − accepted)

What comes later and goes first is not foreseen: the ratios tell how much that matters.
"""

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from operator import attrgetter
from statistics import median
from typing import Any, Final, NamedTuple

from wavetrim.kernels.last_used import LastUsed
from wavetrim.service.jobs.queue import (
    LEAST_SECONDS,
    PRIORITY_DOUBLES,
    Attempt,
    Kind,
    Queue,
    find_ratio,
)

_ROUNDS: Final = 3
"""How often T is computed. Chosen by simulation: it goes from side to side, and ends well after an
odd number."""

_MOST_GROUPS: Final = 16
"""Kinds of the caller's products, and of all others', that are looked at; of more, some stand for
all. Chosen, to bound the time of an answer."""

_age = attrgetter("since")


class _Group(NamedTuple):
    """Products of a caller that have prediction and priority in common, the oldest first."""

    waiting: Sequence[Attempt]
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
    job: Attempt,
    queue: Queue,
    past: "Past",
    *,
    now: float,
    left_seconds: float,
    abreast: int = 1,
) -> Ahead:
    """Find what goes before a job.

    Args:
        job: The job; it may wait in the queue.
        queue: What waits.
        past: Tells how long products should take.
        now: UTC seconds.
        left_seconds: What is left of all that runs, together.
        abreast: How many products run at once.
    """
    own = _list_groups(queue, job.caller, _MOST_GROUPS, past)
    callers, times = _pick([one for one in queue.callers if one != job.caller], _MOST_GROUPS)
    most = _MOST_GROUPS // max(1, len(callers))
    others = [(queue.find_served(one), _list_groups(queue, one, most, past)) for one in callers]
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


def _list_groups(queue: Queue, caller: str, most: int, past: "Past") -> list[_Group]:
    """What waits of a caller, in at most some groups."""
    kinds, times = _pick(queue.list_kinds(caller), most)
    groups = [_Group(some, past.find_seconds(some[0]), times) for some in kinds]
    return sorted(groups, key=attrgetter("stretch"))


def _pick(all_: list[Any], most: int) -> tuple[list[Any], int]:
    """At most some of many, and how many each of them stands for."""
    times = -(-len(all_) // most) or 1
    return all_[::times], times


def _count_own(job: Attempt, groups: Iterable[_Group], begin: float) -> tuple[int, float]:
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


LEAST_ENDS: Final = 19
"""Ratios from which both ends of a 90% interval can be told: 0.05 · (19 + 1) = 1."""

_MOST_ENDS: Final = 60
"""Ratios that are kept; chosen: answers follow a change of load within as many jobs. Simulated, 200
are no better, nor are those of a kind alone."""

_MOST_RUNS: Final = 15
"""Runs of a kind whose median counts; chosen, as for corrections of plans."""

_MOST_KINDS: Final = 256

_WIDE: Final = 4.0
"""Factor of an interval while nothing is known; chosen: predictions for a machine that is not
calibrated are 0.2 to 0.7 of the truth."""

LEAST_AHEAD: Final = 1e-4
"""Least time until what is told, so that ratios are finite; chosen."""


class Span(NamedTuple):
    """What is not sure, such as a time: what it should be, and where it lies with 90%."""

    at: float
    low: float
    high: float


class Told(NamedTuple):
    """What was predicted of a job when it was first asked about, UTC seconds.

    Attributes:
        at: When that was.
        begin: When it should begin.
        end: When it should end.
        before: How many products go before it, or run.
    """

    at: float
    begin: float
    end: float
    before: int = 0


class Medians:
    """The medians of what was measured lately, by kind; a new kind has that of all."""

    def __init__(self) -> None:
        self._values = LastUsed[Kind | None, deque[float]](_MOST_KINDS)

    def add(self, kind: Kind | None, value: float) -> None:
        """One more was measured, of a kind or of none."""
        for one in {kind, None}:
            if (values := self._values.find(one)) is None:
                self._values.keep(one, values := deque(maxlen=_MOST_RUNS))
            values.append(value)

    def find(self, kind: Kind | None, default: float) -> float:
        """The median; the default if nothing was measured."""
        values = self._values.find(kind) or self._values.find(None)
        return default if values is None else median(values)


class Past:
    """What is known, by kind and of all jobs. To be used from one event loop.

    Args:
        least_seconds: Least time that a product takes, unless it is known to take less.

    Attributes:
        leads: How long after it was accepted a job began that had nothing ahead of it.
        trails: How long after its product a job ended.
    """

    def __init__(self, least_seconds: float = LEAST_SECONDS) -> None:
        self._least_seconds = least_seconds
        self.leads, self.trails, self._factors = Medians(), Medians(), Medians()
        self._shifts = deque[float](maxlen=_MOST_ENDS)
        self._ratios = deque[float](maxlen=_MOST_ENDS)

    @property
    def is_young(self) -> bool:
        """Whether so few jobs have ended that intervals are wide."""
        return len(self._ratios) < LEAST_ENDS

    def learn_run(self, job: Attempt, seconds: float) -> None:
        """A product took some seconds on its devices."""
        self._factors.add(job.kind, seconds / max(self._least_seconds, job.predicted_seconds))

    def learn_end(self, told: Told, *, begun: float, ended: float) -> None:
        """A job has ended, of which something was told."""
        seconds = max(LEAST_AHEAD, told.end - told.at)
        self._shifts.append((begun - told.begin) / seconds)
        self._ratios.append((ended - told.at) / seconds)

    def find_seconds(self, job: Attempt) -> float:
        """How long a product should take on its devices."""
        return max(self._least_seconds, job.predicted_seconds) * self._factors.find(job.kind, 1.0)

    def calibrate(self, now: float, begin: float, end: float) -> tuple[Span, Span]:
        """What is told of a job that should begin and end at some times: when it does so."""
        seconds, ahead = max(LEAST_AHEAD, end - now), begin - now
        shifts, ratios = Span(0.0, -ahead, _WIDE * ahead - ahead), Span(1.0, 1 / _WIDE, _WIDE)
        if not self.is_young:
            ratios = _enclose(self._ratios, 1.0)
            shifts = Span(*(seconds * shift for shift in _enclose(self._shifts, 0.0)))
        ends = Span(*(now + seconds * ratio for ratio in ratios))
        # A job begins from now on, and before it ends.
        pairs = zip(shifts, ends, strict=True)
        return Span(*(min(latest, max(now, begin + shift)) for shift, latest in pairs)), ends


def _enclose(values: Collection[float], value: float) -> Span:
    """Where the next value lies with 90%, and what of that is nearest to a given one.

    Of at least `LEAST_ENDS` values.
    """
    ordered = sorted(values)
    edge = math.floor(0.05 * (len(ordered) + 1) + 1e-9) - 1
    low, high = ordered[edge], ordered[-1 - edge]
    return Span(min(max(value, low), high), low, high)
