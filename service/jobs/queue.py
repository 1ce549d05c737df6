"""The order in which products are computed, and the queue: all that wait, by caller.

Callers take turns by work, and within a caller short products come first, unless others have waited
for long:

1. Next is a product of the caller with the least *served* seconds: the predicted seconds of all its
   products that have begun. A caller that comes back begins at the level of the product that began
   last, so nobody saves up turns by waiting, and nobody pays for what was computed while the
   devices were free.

       served(caller) = max(served before, level) + Σ predicted seconds of what begins

2. Of that caller's products it is the one with the highest response ratio, weighed by its priority.
   Of equal ones it is the oldest.

       ratio = (waited + predicted) / predicted · 2^(priority / 100)

A caller that posts ten thousand products so delays another's by at most the one that runs, and by
as much work as the other has had. A long product is overtaken by short ones of its own caller only
until it has waited some times as long as it takes.
"""

import heapq
from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Final, TypeAlias

from wavetrim.service.clock import read_clock

if TYPE_CHECKING:
    from wavetrim.service.jobs.lanes.attempt import Attempt

PRIORITY_DOUBLES: Final = 100
"""What a priority must be higher by for twice the ratio. Chosen: of ±1000, ±1 is 0.7%."""

LEAST_SECONDS: Final = 1e-5
"""Least time that a product is predicted to take here, so that the ratio is finite; chosen."""

_Kind: TypeAlias = tuple[float, int]
"""Predicted seconds and priority: of products that have both in common the oldest goes first."""

_age = attrgetter("since")


def find_ratio(waits: "Attempt", now: float) -> float:
    """The response ratio of a product, weighed by its priority."""
    predicted = max(LEAST_SECONDS, waits.predicted_seconds)
    waited = max(0.0, now - waits.since)
    return float((waited + predicted) / predicted * 2 ** (waits.priority / PRIORITY_DOUBLES))


def rank(
    waiting: Iterable["Attempt"], served: Mapping[str, float], *, now: float, most: int
) -> list["Attempt"]:
    """The products to begin next, in order, as if none came and the ratios stayed as they are.

    Args:
        waiting: All products that wait; of equal ones the first in the list goes first.
        served: Seconds by caller; a caller without is at 0.
        now: UTC seconds.
        most: The most products to return.
    """
    by_caller: dict[str, list[Attempt]] = {}
    for one in waiting:
        by_caller.setdefault(one.caller, []).append(one)
    turns: list[tuple[float, float, str]] = []
    for caller, own in by_caller.items():
        # The next one is the last of the list.
        own.sort(key=lambda one: (find_ratio(one, now), -one.since))
        turns.append((served.get(caller, 0.0), own[-1].since, caller))
    heapq.heapify(turns)
    ranked: list[Attempt] = []
    while turns and len(ranked) < most:
        seconds, _, caller = heapq.heappop(turns)
        own = by_caller[caller]
        ranked.append(first := own.pop())
        if own:
            level = seconds + max(LEAST_SECONDS, first.predicted_seconds)
            heapq.heappush(turns, (level, own[-1].since, caller))
    return ranked


class Queue:
    """Those that wait, and what each caller was served since nobody waited.

    To be used from one event loop.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, dict[_Kind, list[Attempt]]] = {}
        self._count = 0
        self._served: dict[str, float] = {}
        self._level = 0.0

    def __len__(self) -> int:
        return self._count

    def list_all(self) -> list["Attempt"]:
        """All that wait, in the order in which they would begin. Any thread may call this."""
        # Each copy is made at once: other code of Python does not run meanwhile.
        kinds = [kind for kinds in list(self._waiting.values()) for kind in list(kinds.values())]
        attempts = [attempt for kind in kinds for attempt in list(kind)]
        return rank(attempts, dict(self._served), now=read_clock(), most=len(attempts))

    @property
    def callers(self) -> Collection[str]:
        """Those of whom products wait."""
        return self._waiting.keys()

    def list_kinds(self, caller: str) -> list[list["Attempt"]]:
        """What waits of a caller: products that are predicted alike, the oldest first."""
        return list(self._waiting.get(caller, {}).values())

    def find_served(self, caller: str) -> float:
        """The seconds that a caller was served, or would begin with."""
        served = self._served.get(caller, 0.0)
        return served if caller in self._waiting else max(served, self._level)

    def add(self, attempt: "Attempt") -> None:
        """Let a product wait, unless it does already."""
        if attempt.queue is not None:
            return
        attempt.queue = self
        caller = attempt.caller
        if caller not in self._waiting:
            self._waiting[caller] = {}
            self._served[caller] = max(self._served.get(caller, 0.0), self._level)
        kind = attempt.predicted_seconds, attempt.priority
        insort(self._waiting[caller].setdefault(kind, []), attempt, key=_age)
        self._count += 1

    def begin(self, attempt: "Attempt") -> None:
        """A product begins: its caller is charged with it."""
        self._level = self._served[attempt.caller]
        self._served[attempt.caller] += max(LEAST_SECONDS, attempt.predicted_seconds)
        self.remove(attempt)

    def remove(self, attempt: "Attempt") -> None:
        """A product does not wait any more."""
        if attempt.queue is not self:
            return
        attempt.queue = None
        kinds, kind = self._waiting[attempt.caller], (attempt.predicted_seconds, attempt.priority)
        attempts = kinds[kind]
        index = bisect_left(attempts, attempt.since, key=_age)
        while attempts[index] is not attempt:
            index += 1
        del attempts[index]
        self._count -= 1
        if not attempts:
            del kinds[kind]
        if not kinds:
            del self._waiting[attempt.caller]
            self._forget()

    def list_first(self, most: int) -> list["Attempt"]:
        """The products to begin next, in order."""
        seen = [
            attempt for kinds in self._waiting.values() for attempts in kinds.values()
            for attempt in attempts[:most]
        ]  # fmt: skip
        if len(seen) < 2:
            return seen
        return rank(seen, self._served, now=read_clock(), most=most)

    def _forget(self) -> None:
        """Forget what callers were served that would begin at the level anyway."""
        if not self._waiting:
            self._served.clear()
            self._level = 0.0
        elif len(self._served) > 2 * len(self._waiting):
            for caller, seconds in list(self._served.items()):
                if seconds <= self._level and caller not in self._waiting:
                    del self._served[caller]
