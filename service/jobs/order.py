"""The order in which products are computed. Pure: a function of a list.

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
from collections.abc import Iterable, Mapping
from typing import Final, Protocol, TypeVar

PRIORITY_DOUBLES: Final = 100
"""What a priority must be higher by for twice the ratio. Chosen: of ±1000, ±1 is 0.7%."""

LEAST_SECONDS: Final = 1e-5
"""Least time that a product is predicted to take here, so that the ratio is finite; chosen."""


class Waits(Protocol):
    """A product that waits.

    Attributes:
        caller: Whose it is.
        since: When its caller began to wait, UTC seconds.
        predicted_seconds: How long it should take.
        priority: The higher one goes first within its caller.
    """

    caller: str
    since: float
    predicted_seconds: float
    priority: int


W = TypeVar("W", bound=Waits)


def find_ratio(waits: Waits, now: float) -> float:
    """The response ratio of a product, weighed by its priority."""
    predicted = max(LEAST_SECONDS, waits.predicted_seconds)
    waited = max(0.0, now - waits.since)
    return float((waited + predicted) / predicted * 2 ** (waits.priority / PRIORITY_DOUBLES))


def rank(waiting: Iterable[W], served: Mapping[str, float], *, now: float, most: int) -> list[W]:
    """The products to begin next, in order, as if none came and the ratios stayed as they are.

    Args:
        waiting: All products that wait; of equal ones the first in the list goes first.
        served: Seconds by caller; a caller without is at 0.
        now: UTC seconds.
        most: The most products to return.
    """
    by_caller: dict[str, list[W]] = {}
    for one in waiting:
        by_caller.setdefault(one.caller, []).append(one)
    turns: list[tuple[float, float, str]] = []
    for caller, own in by_caller.items():
        # The next one is the last of the list.
        own.sort(key=lambda one: (find_ratio(one, now), -one.since))
        turns.append((served.get(caller, 0.0), own[-1].since, caller))
    heapq.heapify(turns)
    ranked: list[W] = []
    while turns and len(ranked) < most:
        seconds, _, caller = heapq.heappop(turns)
        own = by_caller[caller]
        ranked.append(first := own.pop())
        if own:
            level = seconds + max(LEAST_SECONDS, first.predicted_seconds)
            heapq.heappush(turns, (level, own[-1].since, caller))
    return ranked
