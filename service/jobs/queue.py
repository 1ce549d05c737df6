"""The queue: all jobs and products in one call that wait, by caller.

The database has the jobs as well; the queue is what `order` is asked about. To be used from one
event loop.
"""

from bisect import bisect_left, insort
from collections.abc import Collection
from operator import attrgetter
from typing import TypeAlias

from wavetrim.service.clock import read_clock
from wavetrim.service.jobs.lanes.attempt import Attempt
from wavetrim.service.jobs.order import LEAST_SECONDS, rank

_Kind: TypeAlias = tuple[float, int]
"""Predicted seconds and priority: of products that have both in common the oldest goes first."""

_age = attrgetter("since")


class Queue:
    """Those that wait, and what each caller was served since nobody waited."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[_Kind, list[Attempt]]] = {}
        self._count = 0
        self._served: dict[str, float] = {}
        self._level = 0.0

    def __len__(self) -> int:
        return self._count

    def list_all(self) -> list[Attempt]:
        """All that wait, in the order in which they would begin. Any thread may call this."""
        # Each copy is made at once: other code of Python does not run meanwhile.
        kinds = [kind for kinds in list(self._waiting.values()) for kind in list(kinds.values())]
        attempts = [attempt for kind in kinds for attempt in list(kind)]
        return rank(attempts, dict(self._served), now=read_clock(), most=len(attempts))

    @property
    def callers(self) -> Collection[str]:
        """Those of whom products wait."""
        return self._waiting.keys()

    def list_kinds(self, caller: str) -> list[list[Attempt]]:
        """What waits of a caller: products that are predicted alike, the oldest first."""
        return list(self._waiting.get(caller, {}).values())

    def find_served(self, caller: str) -> float:
        """The seconds that a caller was served, or would begin with."""
        served = self._served.get(caller, 0.0)
        return served if caller in self._waiting else max(served, self._level)

    def add(self, attempt: Attempt) -> None:
        """Let a product wait, unless it does already."""
        if attempt.queue is not None:
            return
        attempt.queue = self
        caller = attempt.caller
        if caller not in self._waiting:
            self._waiting[caller] = {}
            self._served[caller] = max(self._served.get(caller, 0.0), self._level)
        attempts = self._waiting[caller].setdefault(_find_kind(attempt), [])
        insort(attempts, attempt, key=_age)
        self._count += 1

    def begin(self, attempt: Attempt) -> None:
        """A product begins: its caller is charged with it."""
        self._level = self._served[attempt.caller]
        self._served[attempt.caller] += max(LEAST_SECONDS, attempt.predicted_seconds)
        self.remove(attempt)

    def remove(self, attempt: Attempt) -> None:
        """A product does not wait any more."""
        if attempt.queue is not self:
            return
        attempt.queue = None
        kinds, kind = self._waiting[attempt.caller], _find_kind(attempt)
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

    def list_first(self, most: int) -> list[Attempt]:
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


def _find_kind(attempt: Attempt) -> _Kind:
    return attempt.predicted_seconds, attempt.priority
