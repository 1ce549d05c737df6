"""The checks that a request passes before its route gets a byte of its body, in order.

Each is a function that refuses or passes on. A request that passes all of them goes to its
`BodyRoute`, or with its JSON document to FastAPI.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from ipaddress import ip_address
from typing import Final
from urllib.parse import parse_qsl

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from wavetrim.service.api.admission.auth import authenticate, find_scope, needs_access
from wavetrim.service.api.admission.body_limit import receive_document, replay
from wavetrim.service.api.admission.body_route import BodyRoute, list_known
from wavetrim.service.api.admission.call import TENANT, Call
from wavetrim.service.api.problem_kinds import REFUSALS
from wavetrim.service.api.problems import METHODS, describe_refusal, is_protocols
from wavetrim.service.errors import (
    HostAmbiguous,
    HostRefused,
    QueryFieldRepeated,
    QueryFieldUnknown,
)
from wavetrim.service.settings import Settings


async def check_host(call: Call) -> None:
    """The Host header is there once, and names loopback if the service has no key.

    Without a key the service listens on loopback only. So a web page that rebinds its own host name
    to 127.0.0.1 is refused. If the target of a request is a whole URL, `wire/` has replaced the
    header by the URL's host.

    Raises:
        HostAmbiguous: There are several headers, or none.
        HostRefused: It names another machine.
    """
    is_needed = call.scope["http_version"] == "1.1"
    check_hosts(call.headers.getlist("host"), call.frame.settings, is_needed=is_needed)


async def check_access(call: Call) -> None:
    """The key or token is valid and has the scope, and its caller has a connection left.

    From then on the call has a tenant, until `request_log` ends its access.

    Raises:
        Unauthorized: The service has keys, and the call has no valid key or token.
        ScopeMissing: Its key or token lacks the scope.
        IssuerAway: Its token cannot be checked now.
        QuotaReached: The caller has as many connections as it may.
    """
    scope = call.scope
    if needs_access(scope["path"], call.frame.settings):
        tenant = await authenticate(call, find_scope(scope["method"], scope["path"]))
        call.frame.descriptors.enter(tenant.name)
        scope[TENANT] = tenant


async def check_query(call: Call) -> None:
    """The route knows all fields of the query, and each but a list is there once.

    What clients of /v2 add is ignored.

    Raises:
        QueryFieldUnknown: One is unknown.
        QueryFieldRepeated: One is there twice.
    """
    route = call.scope.get("route")
    if route is None:
        return  # FastAPI finds it later
    query_string: bytes = call.scope["query_string"]
    if not query_string or is_protocols(call.scope["path"]):
        return
    known: Mapping[str, bool] = (
        route.known if isinstance(route, BodyRoute) else dict(list_known(route.dependant))
    )
    seen: set[str] = set()
    for name, value in parse_qsl(query_string.decode("latin-1"), keep_blank_values=True):
        if name not in known:
            raise QueryFieldUnknown(name, value, known)
        if name in seen and not known[name]:
            raise QueryFieldRepeated(name, value)
        seen.add(name)


CHECKS: Final[Sequence[Callable[[Call], Awaitable[None]]]] = (
    check_host,
    check_access,
    check_query,
)
"""All of them, in order. `check_query` is a dependency of FastAPI's routes, too."""


class Admission:
    """ASGI middleware that makes the checks, and then has body routes answer.

    FastAPI answers all others; it would read a body before it checks access, so JSON bodies are
    read here.

    Args:
        app: Answers all other requests.
        routes: The body routes.
    """

    def __init__(self, app: ASGIApp, routes: Sequence[BodyRoute]) -> None:
        self._app = app
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one connection event."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # RFC 9110, section 9.1, wants HEAD wherever there is GET. The server leaves the body out.
        is_head = scope["method"] == "HEAD"
        route = self._find_route(scope, "GET" if is_head else scope["method"])
        call = Call(scope, receive, send)
        try:
            for check in CHECKS:
                await check(call)
            if route is not None:
                await route.answer(call)
                return
            receive = await _receive_body(call)
        except REFUSALS as error:
            if call.begun:
                raise  # breaks the answer off
            await describe_refusal(error)(scope, receive, send)
            return
        if not is_head:
            await self._app(scope, receive, send)
            return
        passed = {**scope, "method": "GET"}
        try:
            await self._app(passed, receive, send)
        finally:
            scope.update(passed, method="HEAD")  # the log reads the route there

    def _find_route(self, scope: Scope, method: str) -> BodyRoute | None:
        for route in self._routes:
            if (parameters := route.find(method, scope["path"])) is not None:
                scope.update(path_params=parameters, route=route)
                return route
        return None


async def _receive_body(call: Call) -> Receive:
    """The channel on which FastAPI gets the body of a call: whole, if it is to be read at all."""
    # A method that no route has is refused by FastAPI; its body is not read.
    is_read = call.method in METHODS and needs_access(call.scope["path"], call.frame.settings)
    if is_read and _has_body(call.headers):
        return replay(await receive_document(call), call.receive)
    return call.receive


def check_hosts(hosts: Sequence[str], settings: Settings, *, is_needed: bool) -> None:
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
        raise HostAmbiguous("Host", list(hosts), "one header")
    if settings.names_callers or not hosts:
        return  # HTTP/1.0 without the header, as of a load balancer's check: no browser sends that
    if not _names_loopback(hosts[0], settings.host):
        limit = "localhost or a loopback address, until the service has a WAVETRIM_API_KEY"
        raise HostRefused("Host", hosts[0], limit)


_HOST: Final = re.compile(
    r"(?P<name>[a-z0-9.-]+|\[[0-9a-f:.]+\])(:[0-9]*)?", re.IGNORECASE | re.ASCII
)
"""A name or an address, and a port; a URL parser would accept users, paths and queries, too."""


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


def _has_body(headers: Headers) -> bool:
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
