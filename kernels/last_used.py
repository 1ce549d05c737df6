"""A cache that drops the entries that were used longest ago."""

import threading
from itertools import count
from typing import Final, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

DROPPED_SHARE: Final = 1 / 8
"""Share of the entries that a full mapping drops at once, since finding them takes time; chosen."""


class _Entry(Generic[V]):
    """A value, and the number of its last use."""

    __slots__ = ("used", "value")

    def __init__(self, value: V, used: int) -> None:
        self.value, self.used = value, used


class LastUsed(Generic[K, V]):
    """A mapping of at most `capacity` entries. Thread-safe; finding one takes no lock.

    When it is full, it drops the entries that were used longest ago.

    Args:
        capacity: Most entries, at least 1.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._kept: dict[K, _Entry[V]] = {}
        self._uses = count()
        self._keeping = threading.RLock()  # a signal handler may compute a product, too

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, key: K) -> bool:
        return key in self._kept

    def find(self, key: K) -> V | None:
        """The value of a key, which is used by this; None without one."""
        entry = self._kept.get(key)
        if entry is None:
            return None
        entry.used = next(self._uses)
        return entry.value

    def keep(self, key: K, value: V) -> None:
        """Keep a value, in place of the key's old one."""
        with self._keeping:
            if len(self._kept) >= self._capacity and key not in self._kept:
                self._make_room()
            self._kept[key] = _Entry(value, next(self._uses))

    def drop(self, key: K) -> None:
        """Drop a key, if it is there."""
        with self._keeping:
            self._kept.pop(key, None)

    def clear(self) -> None:
        """Drop all entries."""
        with self._keeping:
            self._kept.clear()

    def _make_room(self) -> None:
        oldest = sorted(self._kept, key=lambda key: self._kept[key].used)
        for key in oldest[: max(1, int(DROPPED_SHARE * self._capacity))]:
            del self._kept[key]
