"""The products that wait in the lane, in order: by priority, then by age."""

import heapq
import itertools
from collections.abc import Iterable, Iterator

from wavetrim.service.jobs.lanes.turn import Turn


class WaitingTurns:
    """A queue of turns; one that was given up is left out. To be used from one event loop."""

    def __init__(self) -> None:
        self._heap: list[tuple[tuple[int, float, int], Turn]] = []
        self._numbers = itertools.count()

    def __iter__(self) -> Iterator[Turn]:
        """Those that wait, in no order."""
        return (turn for _, turn in self._heap if not turn.begun.done())

    def __bool__(self) -> bool:
        return self.find_first() is not None

    @property
    def has_several(self) -> bool:
        """Whether more than one waits, those included that were given up unnoticed."""
        return len(self._heap) > 1

    def add(self, turn: Turn, *, priority: int, since: float) -> None:
        """Let a turn wait."""
        turn.order = (-priority, since, next(self._numbers))
        heapq.heappush(self._heap, (turn.order, turn))

    def find_first(self) -> Turn | None:
        """The next turn; None if nobody waits."""
        while self._heap and self._heap[0][1].begun.done():
            heapq.heappop(self._heap)
        return self._heap[0][1] if self._heap else None

    def take(self) -> Turn | None:
        """Take out the next turn; `put_back` puts it back where it was."""
        return heapq.heappop(self._heap)[1] if self.find_first() is not None else None

    def put_back(self, turns: Iterable[Turn]) -> None:
        """Put back the turns that have not begun meanwhile."""
        for turn in turns:
            if not turn.begun.done():
                heapq.heappush(self._heap, (turn.order, turn))
