"""The queue: all jobs and products in one call that wait, by caller.

The database has the jobs as well; the queue is what `order` is asked about. To be used from one
event loop.
"""

from bisect import bisect_left, insort
from collections.abc import Collection
from operator import attrgetter
from typing import TypeAlias

from wavetrim.service.clock import read_clock
from wavetrim.service.jobs.lanes.turn import Turn
from wavetrim.service.jobs.order import LEAST_SECONDS, rank

_Kind: TypeAlias = tuple[float, int]
"""Predicted seconds and priority: of products that have both in common the oldest goes first."""

_age = attrgetter("since")


class Queue:
    """Those that wait, and what each caller was served since nobody waited."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[_Kind, list[Turn]]] = {}
        self._counts: dict[str, int] = {}
        self._served: dict[str, float] = {}
        self._level = 0.0

    def __len__(self) -> int:
        return sum(self._counts.values())

    def list_all(self) -> list[Turn]:
        """All that wait, in the order in which they would begin. Any thread may call this."""
        # Each copy is made at once: other code of Python does not run meanwhile.
        kinds = [kind for kinds in list(self._waiting.values()) for kind in list(kinds.values())]
        turns = [turn for kind in kinds for turn in list(kind)]
        return rank(turns, dict(self._served), now=read_clock(), most=len(turns))

    @property
    def callers(self) -> Collection[str]:
        """Those of whom products wait."""
        return self._waiting.keys()

    def list_kinds(self, caller: str) -> list[list[Turn]]:
        """What waits of a caller: products that are predicted alike, the oldest first."""
        return list(self._waiting.get(caller, {}).values())

    def find_served(self, caller: str) -> float:
        """The seconds that a caller was served, or would begin with."""
        served = self._served.get(caller, 0.0)
        return served if caller in self._waiting else max(served, self._level)

    def count(self, caller: str) -> int:
        """How many of a caller wait."""
        return self._counts.get(caller, 0)

    def add(self, turn: Turn) -> None:
        """Let a product wait, unless it does already."""
        if turn.queue is not None:
            return
        turn.queue = self
        caller = turn.caller
        if caller not in self._waiting:
            self._waiting[caller] = {}
            self._served[caller] = max(self._served.get(caller, 0.0), self._level)
        turns = self._waiting[caller].setdefault(_find_kind(turn), [])
        insort(turns, turn, key=_age)
        self._counts[caller] = self.count(caller) + 1

    def begin(self, turn: Turn) -> None:
        """A product begins: its caller is charged with it."""
        self._level = self._served[turn.caller]
        self._served[turn.caller] += max(LEAST_SECONDS, turn.predicted_seconds)
        self.remove(turn)

    def remove(self, turn: Turn) -> None:
        """A product does not wait any more."""
        if turn.queue is not self:
            return
        turn.queue = None
        kinds, kind = self._waiting[turn.caller], _find_kind(turn)
        turns = kinds[kind]
        index = bisect_left(turns, turn.since, key=_age)
        while turns[index] is not turn:
            index += 1
        del turns[index]
        self._counts[turn.caller] -= 1
        if not turns:
            del kinds[kind]
        if not kinds:
            del self._waiting[turn.caller], self._counts[turn.caller]
            self._forget()

    def list_first(self, most: int) -> list[Turn]:
        """The products to begin next, in order."""
        seen = [
            turn for kinds in self._waiting.values() for turns in kinds.values()
            for turn in turns[:most]
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


def _find_kind(turn: Turn) -> _Kind:
    return turn.predicted_seconds, turn.priority
