"""A cache that drops the entries that were used longest ago."""

import threading
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LastUsed(Generic[K, V]):
    """A mapping of at most `capacity` entries. Thread-safe.

    Args:
        capacity: Most entries, at least 1.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._entries: dict[K, V] = {}  # the last used one last
        self._lock = threading.RLock()  # reentrant: a signal handler may compute a product

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        with self._lock:
            return key in self._entries

    def find(self, key: K) -> V | None:
        """The value of a key, which counts as a use; None if it is not there."""
        with self._lock:
            value = self._entries.pop(key, None)
            if value is not None:
                self._entries[key] = value
            return value

    def keep(self, key: K, value: V) -> None:
        """Store a key's value, in place of an older one."""
        with self._lock:
            self._entries.pop(key, None)
            self._entries[key] = value
            if len(self._entries) > self._capacity:
                self._entries.pop(next(iter(self._entries)), None)

    def drop(self, key: K) -> None:
        """Drop a key, if it is there."""
        with self._lock:
            self._entries.pop(key, None)

    def clear(self) -> None:
        """Drop all entries."""
        with self._lock:
            self._entries.clear()
