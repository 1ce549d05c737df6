"""The products that wait in the lane, in order: by priority, then by age."""

import heapq
import itertools
from collections.abc import Iterable, Iterator

from wavetrim.service.jobs.lanes.turn import Turn

Entry = tuple[int, float, int, Turn]
"""What orders a turn, and the turn: minus its priority, its caller's time, a running number."""


class WaitingTurns:
    """A queue of turns; one that was given up is left out. To be used from one event loop."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._numbers = itertools.count()

    def __iter__(self) -> Iterator[Turn]:
        """Those that wait, in no order."""
        return (entry[3] for entry in self._entries if not entry[3].begun.done())

    def __bool__(self) -> bool:
        return self.find_first() is not None

    @property
    def has_several(self) -> bool:
        """Whether more than one waits, those included that were given up unnoticed."""
        return len(self._entries) > 1

    def add(self, turn: Turn, *, priority: int, since: float) -> None:
        """Let a turn wait."""
        heapq.heappush(self._entries, (-priority, since, next(self._numbers), turn))

    def find_first(self) -> Turn | None:
        """The next turn; None if nobody waits."""
        while self._entries and self._entries[0][3].begun.done():
            heapq.heappop(self._entries)
        return self._entries[0][3] if self._entries else None

    def take(self) -> Entry | None:
        """Take out the next turn; `put_back` puts it back where it was."""
        return heapq.heappop(self._entries) if self.find_first() is not None else None

    def put_back(self, entries: Iterable[Entry]) -> None:
        """Put back the turns that have not begun meanwhile."""
        for entry in entries:
            if not entry[3].begun.done():
                heapq.heappush(self._entries, entry)
