"""What every request passes: the log and the checks, before a route answers it.

`RequestLog` is around the whole application, `Admission` before its routes.
"""

import logging
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wavetrim.service.api.calls import Call, CallRoute
from wavetrim.service.api.checks import TENANT, check_caller, check_host, check_query
from wavetrim.service.api.problem_kinds import REFUSALS
from wavetrim.service.api.problems import answer_incident, describe_error
from wavetrim.service.parts import Parts
from wavetrim.service.telemetry.logs import (
    FIELDS,
    read_trace_parent,
    request_id,
    take_request_id,
    trace_parent,
)

logger = logging.getLogger(__name__)

STATUS: Final = "wavetrim.status"
"""Key of the answer's status in a request's ASGI scope, once the answer has begun."""

_DISCONNECTED: Final = 499


class RequestLog:
    """ASGI middleware around the whole application.

    A valid X-Request-Id of a request is kept, otherwise one is made; the answer has it, too. A
    `traceparent` continues its trace. An unexpected error is logged under an incident id, and the
    caller learns only that id. A client that leaves is no error: what is sent to it is lost.

    Args:
        app: The application.
        parts: The parts of the service.
    """

    def __init__(self, app: ASGIApp, parts: Parts) -> None:
        self._app = app
        self._metrics, self._descriptors = parts.metrics, parts.descriptors
        traces = parts.traces
        self._find_parent = read_trace_parent if traces is None else traces.find_parent

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one connection event."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        sent = dict(reversed(scope["headers"]))  # of several fields of a name the first counts
        identity = take_request_id(sent.get(b"x-request-id", b"").decode("latin-1"))
        parent = self._find_parent(sent.get(b"traceparent", b"").decode("latin-1"))
        tokens = request_id.set(identity), trace_parent.set(parent)

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                scope[STATUS] = message["status"]
                MutableHeaders(scope=message)["X-Request-Id"] = identity
            try:
                await send(message)
            except OSError as error:
                raise ClientDisconnect from error

        try:
            await self._app(scope, receive, send_with_id)
        except ClientDisconnect:
            scope[STATUS] = _DISCONNECTED
        except Exception:
            incident = uuid.uuid4().hex
            logger.exception("incident %s", incident)
            self._metrics.incidents.inc()
            if STATUS in scope:
                raise  # the answer has begun, so the server breaks off the connection
            with suppress(ClientDisconnect):
                await answer_incident(incident)(scope, receive, send_with_id)
        finally:
            if TENANT in scope and (name := scope[TENANT].name):
                self._descriptors.leave(name)
            self._record(scope, time.perf_counter() - began)
            request_id.reset(tokens[0])
            trace_parent.reset(tokens[1])

    def _record(self, scope: Scope, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "other")
        method, path, status = scope["method"], scope["path"], scope.get(STATUS, _DISCONNECTED)
        # A stream lasts as long as its caller listens: that is no latency.
        latency = None if route.endswith("/events") else seconds
        self._metrics.record_request(method, route, status, latency)
        if not logger.isEnabledFor(logging.DEBUG):
            return
        client = scope.get("client") or ("unix", None)
        fields = {
            "client": client[0],
            "method": method,
            "path": path,
            "route": route,
            "status": status,
            "seconds": round(seconds, 6),
        }
        shown = ascii(client[0])[1:-1]  # it may come from a proxy's header
        words = "%s %r %d %.1f ms for %s"
        logger.debug(words, method, path, status, seconds * 1e3, shown, extra={FIELDS: fields})


class Admission:
    """ASGI middleware that makes the checks, and then has the call's route answer.

    FastAPI answers what no route is for: pages, and unknown paths and methods.

    Args:
        app: Answers all other requests.
        routes: The routes of calls, in the order in which one is looked for.
    """

    def __init__(self, app: ASGIApp, routes: Sequence[CallRoute]) -> None:
        self._app = app
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one connection event."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        route = self._find_route(scope)
        call = Call(scope, receive, send)
        try:
            needs_host = scope["http_version"] == "1.1"
            check_host(call.headers.getlist("host"), call.parts.settings, is_needed=needs_host)
            await check_caller(call)
            check_query(call)
            if route is not None:
                await route.answer(call)
                return
        except REFUSALS as error:
            if STATUS in scope:
                raise  # breaks the answer off
            await describe_error(error)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _find_route(self, scope: Scope) -> CallRoute | None:
        # RFC 9110, section 9.1, wants HEAD wherever there is GET. The server leaves the body out.
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        for route in self._routes:
            if method in (route.methods or ()) and (found := route.path_regex.match(scope["path"])):
                scope.update(path_params=found.groupdict(), route=route)
                return route
        return None
