"""How many connections the process has descriptors for."""

import resource
from typing import Final

from wavetrim.service.errors import SettingRefused

RESERVED: Final = 56
"""What the service itself has open: the database's pool, the engine, listeners, the arena."""

_LEAST_CONNECTIONS: Final = 4


def limit_connections(wanted: int | None) -> int:
    """The most connections that leave files, database and engine the descriptors that they need.

    A quarter of the process's descriptors stays free, and at least those that the service has open
    when nobody calls.

    Args:
        wanted: What was asked for; None for as many as there are descriptors for.

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
