"""How many connections the process has descriptors for."""

import resource
from typing import Final

from wavetrim.service.errors import SettingRefused

RESERVED: Final = 56
"""Descriptors of the service itself: the database's pool, the engine, listeners, the arena."""

_LEAST_CONNECTIONS: Final = 4


def limit_connections(wanted: int | None) -> int:
    """The most connections for which the process has file descriptors.

    A quarter of the descriptors, and at least RESERVED, are left to files, database and engine.

    Args:
        wanted: What was asked for; None for as many as possible.

    Raises:
        SettingRefused: More were asked for than that.
    """
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    possible = max(_LEAST_CONNECTIONS, most - max(RESERVED, most // 4))
    if wanted is None:
        return possible
    if wanted > possible:
        limit = f"at most {possible}: the process may open {most} descriptors (ulimit -n)"
        raise SettingRefused("max_connections", wanted, limit)
    return wanted
