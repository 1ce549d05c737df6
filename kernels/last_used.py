"""A cache that drops the entries that were used longest ago."""

import threading
from itertools import count
from typing import Final, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

DROPPED_SHARE: Final = 1 / 8
"""Share of the entries that a full cache drops at once, because finding them takes time; chosen."""


class _Entry(Generic[V]):
    """A value, and the number of its last use."""

    __slots__ = ("used", "value")

    def __init__(self, value: V, used: int) -> None:
        self.value, self.used = value, used


class LastUsed(Generic[K, V]):
    """A mapping of at most `capacity` entries. Thread-safe; finding one takes no lock.

    Args:
        capacity: Most entries, at least 1.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._entries: dict[K, _Entry[V]] = {}
        self._uses = count()
        self._lock = threading.RLock()  # reentrant: a signal handler may compute a product

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def find(self, key: K) -> V | None:
        """The value of a key, which counts as a use; None if it is not there."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        entry.used = next(self._uses)
        return entry.value

    def keep(self, key: K, value: V) -> None:
        """Store a key's value, in place of an older one."""
        with self._lock:
            if len(self._entries) >= self._capacity and key not in self._entries:
                self._drop_oldest()
            self._entries[key] = _Entry(value, next(self._uses))

    def drop(self, key: K) -> None:
        """Drop a key, if it is there."""
        with self._lock:
            self._entries.pop(key, None)

    def clear(self) -> None:
        """Drop all entries."""
        with self._lock:
            self._entries.clear()

    def _drop_oldest(self) -> None:
        oldest = sorted(self._entries, key=lambda key: self._entries[key].used)
        for key in oldest[: max(1, int(DROPPED_SHARE * self._capacity))]:
            del self._entries[key]
