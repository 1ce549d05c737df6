"""Host check: a request has one Host header, which must name loopback if the service has no key.

If a request's target is a whole URL, `wire/` has replaced the header by the URL's host.
"""

import re
from functools import lru_cache
from ipaddress import ip_address
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from wavetrim.service.api.problems import describe_error
from wavetrim.service.errors import HostAmbiguous, HostRefused
from wavetrim.service.settings import Settings

_HOST: Final = re.compile(
    r"(?P<name>[a-z0-9.-]+|\[[0-9a-f:.]+\])(:[0-9]*)?", re.IGNORECASE | re.ASCII
)
"""A name or an address, and a port; a URL parser would accept users, paths and queries, too."""


class HostCheck:
    """ASGI middleware that refuses requests under a foreign name, to any path.

    Without an API key the service listens on loopback only, and each request must name loopback.
    So a web page that rebinds its own host name to 127.0.0.1 is refused.

    Args:
        app: Answers all other requests.
        settings: Say whether there is a key, and name the service's host.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one connection event."""
        if scope["type"] == "http":
            hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
            try:
                check_hosts(hosts, self._settings, is_needed=scope["http_version"] == "1.1")
            except (HostAmbiguous, HostRefused) as error:
                await describe_error(error)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def check_hosts(hosts: list[str], settings: Settings, *, is_needed: bool) -> None:
    """Make sure that a request names one host, and an allowed one.

    Args:
        hosts: The request's Host headers.
        settings: The service's settings.
        is_needed: Whether the request's version of HTTP asks for the header, as 1.1 does.

    Raises:
        HostAmbiguous: There are several, and proxies may pick another one than the service; or
            there is none although it is needed (RFC 9112, section 3.2).
        HostRefused: The service has no API key, and the header does not name this machine.
    """
    if len(hosts) > 1 or (is_needed and not hosts):
        raise HostAmbiguous("Host", hosts, "one header")
    if settings.names_callers or not hosts:
        return  # HTTP/1.0 without the header, as of a load balancer's check: no browser sends that
    host = hosts[0]
    if not _names_loopback(host, settings.host):
        raise HostRefused("Host", host, f"localhost, a loopback address or {settings.host}")


@lru_cache(maxsize=64)
def _names_loopback(host: str, own_name: str) -> bool:
    found = _HOST.fullmatch(host)
    if found is None:
        return False
    name = found["name"].strip("[]").lower()
    try:
        return name in ("localhost", own_name.lower()) or ip_address(name).is_loopback
    except ValueError:
        return False
