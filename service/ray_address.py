"""The address of a Ray cluster: what it must be."""

import re
from typing import Final

_ADDRESS: Final = re.compile(r"[^\s:/]+:(\d{1,5})", re.ASCII)
_MOST_PORT: Final = 65535


def check_ray_address(address: str) -> None:
    """Makes sure that it is a host and a port.

    Raises:
        ValueError: It is not; the message says what it must be.
    """
    found = _ADDRESS.fullmatch(address)
    if found is None or not 1 <= int(found[1]) <= _MOST_PORT:
        limit = f"HOST:PORT, a name or an IPv4 address and a port from 1 to {_MOST_PORT}"
        raise ValueError(f"it is {address!r}; it must be {limit}")
