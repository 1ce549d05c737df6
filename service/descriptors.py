"""The process's descriptors: how many callers may hold, and how many they do."""

import resource
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final

from wavetrim.service.errors import Crowded, QuotaReached, SettingRefused

RESERVED: Final = 56
"""Descriptors of the service itself: the database's pool, the engine, listeners, the arena."""

_LEAST_CONNECTIONS: Final = 4

_SPARE: Final = 8
"""Files and leases for which no connection has to go: those who are connected can work; chosen."""


class Descriptors:
    """Counts what callers hold: connections, and the files, leases and sockets beside them.

    Otherwise whoever holds many would leave none to the database, the engine and new callers. A
    caller with a name may hold half of them. To be used from one event loop.

    A quarter of the process's descriptors, and at least RESERVED, are left to files, database and
    engine.

    Args:
        wanted: The most connections, by the settings; None for as many as possible.

    Raises:
        SettingRefused: There are fewer descriptors than that.

    Attributes:
        connections: The most connections.
        few: The most leases, and the most connections to their socket that have none yet.
        count_connections: How many there are; set by the server.
    """

    def __init__(self, wanted: int | None) -> None:
        all_, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._most = max(_LEAST_CONNECTIONS, all_ - max(RESERVED, all_ // 4))
        if wanted is not None and wanted > self._most:
            limit = f"at most {self._most}: the process may open {all_} descriptors (ulimit -n)"
            raise SettingRefused("max_connections", wanted, limit)
        self.connections = self._most if wanted is None else wanted
        self._taken = 0
        self._held: Counter[str] = Counter()
        self.few = max(_LEAST_CONNECTIONS, self._most // 8)
        self.count_connections: Callable[[], int] = lambda: 0

    @property
    def missing(self) -> int:
        """How many of `connections` are taken by something else."""
        return max(0, self._taken - _SPARE - (self._most - self.connections))

    def take(self, caller: str, field: str) -> Callable[[], None]:
        """Count one descriptor that is about to be opened; returns a function that ends that.

        Args:
            caller: Name of the tenant for whom; empty for none.
            field: What it is for, as a refusal says it.

        Raises:
            Crowded: Callers hold as many as they may.
            QuotaReached: The caller does.
        """
        total = min(self.count_connections(), self.connections) + self._taken + 1
        if total > self._most + _SPARE:
            limit = f"at most {self._most + _SPARE}, with all connections (ulimit -n)"
            raise Crowded(f"{field} and other descriptors", total, limit)
        if caller:
            self.enter(caller)
        self._taken += 1
        return partial(self._give, caller)

    def _give(self, caller: str) -> None:
        self._taken -= 1
        if caller:
            self.leave(caller)

    def enter(self, caller: str) -> None:
        """Count a request of a caller with a name, whose connection is open already.

        Raises:
            QuotaReached: The caller holds as many descriptors as it may.
        """
        most = max(1, self._most // 2)
        if self._held[caller] >= most:
            limit = f"at most {most}, half of all"
            raise QuotaReached("requests, files and leases of the key", most + 1, limit)
        self._held[caller] += 1

    def leave(self, caller: str) -> None:
        """A request of a caller with a name has ended."""
        self._held[caller] -= 1
        if not self._held[caller]:
            del self._held[caller]
