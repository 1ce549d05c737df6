"""Opening a client: its arguments are checked here."""

import os
import ssl
from types import TracebackType
from typing import Final, Self

from .leases.leased_memory import LeasedMemory
from .version import __version__
from .wire.address import parse_address
from .wire.calls import Calls
from .wire.retries import Retries
from .wire.transport import Transport

LOCAL_URL: Final = "http://127.0.0.1:8000"
"""Where `wavetrim serve` listens by default."""

TIMEOUT_SECONDS: Final = 120.0
"""The default of the longest silence of a service within one call; chosen."""


class Opened:
    """A client of one service; see `Client` for the arguments. Nothing is sent yet.

    Raises:
        ValueError: An argument is not valid.
    """

    def __init__(
        self,
        url: str | os.PathLike[str] = LOCAL_URL,
        *,
        api_key: str | None = None,
        timeout: float | None = TIMEOUT_SECONDS,
        retries: int = 3,
        tls_context: ssl.SSLContext | None = None,
    ) -> None:
        if timeout is not None and not timeout > 0:
            limit = "a positive number of seconds, or None"
            raise ValueError(f"timeout is {timeout}; it must be {limit}")
        if retries < 0:
            raise ValueError(f"retries is {retries}; it must be at least 0")
        headers = {"User-Agent": f"wavetrim-client/{__version__}"}
        if api_key is not None:
            check_api_key(api_key)
            headers["Authorization"] = f"Bearer {api_key}"
        self._transport = Transport(
            parse_address(url),
            headers=headers,
            timeout_seconds=timeout,
            tls_context=tls_context,
        )
        self._timeout_seconds = timeout
        self._calls = Calls(self._transport, Retries(tries=retries + 1))
        self._memory = LeasedMemory(self._calls)

    @property
    def url(self) -> str:
        """Address of the service."""
        return self._transport.url

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections, and give back the leases without arrays."""
        self._memory.close()
        self._transport.close()


def check_api_key(api_key: str, name: str = "api_key") -> None:
    """Refuse a key that no service has, and that a header could not carry.

    Args:
        api_key: The key.
        name: What the caller calls it, for the message.

    Raises:
        ValueError: It is such a key; the message does not contain it.
    """
    if not api_key or not api_key.isprintable() or api_key != api_key.strip():
        limit = "at least one, all of them printable, and no space or line end at its ends"
        raise ValueError(f"{name} has {len(api_key)} characters (not shown); it must have {limit}")
