"""The client for blocking callers."""

import os
import ssl
from dataclasses import replace
from typing import Any, Final, Self, Unpack

from .errors import ServiceBusy
from .jobs import Jobs
from .leases import LeasedMemory
from .options import PlanQuestion, describe_options
from .products import Products
from .records import Health
from .wire.address import parse_address
from .wire.calls import Calls
from .wire.connection import Request

__version__: Final = "0.2.0"

LOCAL_URL: Final = "http://127.0.0.1:8000"
"""Where `wavetrim serve` listens by default."""

TIMEOUT_SECONDS: Final = 120.0
"""The default of the longest silence of a service within one call; chosen."""

_MOST_SECONDS: Final = (2**31 - 1) / 1e3
"""The longest timeout that a socket takes: 25 days."""


class Client(Products, Jobs):
    """A client of one service: a context manager, and safe for several threads.

    Every call raises `ServiceUnreachable` if there is no answer, `ServiceBusy` if the service
    accepts no work now, and `ServiceRefused` with the problem document for any other refusal. A
    call whose connection breaks is repeated after a short pause if that cannot do anything twice.
    So is a call that the service puts off by a few seconds (503 with Retry-After).

    Args:
        url: "http://host:8000", "https://host", or a Unix socket: "/run/wavetrim.sock",
            "unix:/run/wavetrim.sock".
        api_key: Bearer token, if the service requires one.
        timeout: Longest silence of the service within one call, in seconds; None for no limit.
            The service is silent while it computes a product.
        retries: How often a call is repeated at most.
        tls_context: TLS settings; None for the system's certificates.

    Raises:
        ValueError: An argument is not valid. Nothing is sent yet.
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
        address = parse_address(url)
        headers = {
            "Host": address.authority,
            "Accept-Encoding": "identity",
            "User-Agent": f"wavetrim-client/{__version__}",
        }
        if api_key is not None:
            check_api_key(api_key)
            headers["Authorization"] = f"Bearer {api_key}"
        if address.tls and tls_context is None:
            tls_context = ssl.create_default_context()
        seconds = min(timeout or _MOST_SECONDS, _MOST_SECONDS)
        self._calls = Calls(address, headers, seconds, retries, tls_context)
        self._memory = LeasedMemory(self._calls)

    @property
    def url(self) -> str:
        """Address of the service."""
        return self._calls.address.url

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections, and give back the leases without arrays."""
        self._memory.leave()
        self._calls.close()

    def plan(self, m: int, n: int, k: int, **options: Unpack[PlanQuestion]) -> dict[str, Any]:
        """How the service would split a product: F, waves, predicted seconds, the curve.

        Args:
            m: Rows of A and of the product.
            n: Columns of B and of the product.
            k: Columns of A, rows of B.
            **options: See `PlanQuestion`.
        """
        asked = describe_options(options, PlanQuestion)
        plan: dict[str, Any] = self._calls.get("/v1/plan", m=m, n=n, k=k, **asked)
        return plan

    def devices(self) -> dict[str, Any]:
        """GPUs of the service, and the presets that it can plan for."""
        devices: dict[str, Any] = self._calls.get("/v1/devices")
        return devices

    def health(self) -> Health:
        """Whether the service accepts work, and if not, why; asked once, without repetition.

        Raises:
            ServiceUnreachable: It does not answer at all.
        """
        try:
            replace(self._calls, retries=0).ask(Request("GET", "/healthz/ready"))
        except ServiceBusy as busy:
            return Health(ready=False, missing=busy.problem.get("missing", {"service": str(busy)}))
        return Health(ready=True, missing={})


def check_api_key(api_key: str, name: str = "api_key") -> None:
    """Refuse a key that no service has, and that a header could not carry.

    The message calls it `name`, and does not contain it.
    """
    if not api_key or not api_key.isprintable() or api_key != api_key.strip():
        limit = "at least one, all of them printable, and no space or line end at its ends"
        raise ValueError(f"{name} has {len(api_key)} characters (not shown); it must have {limit}")
