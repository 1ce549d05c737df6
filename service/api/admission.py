"""What every request passes: the log and the checks, before a route answers it."""

import logging
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wavetrim.service.api.calls import Call, CallRoute
from wavetrim.service.api.checks import check_caller, check_host
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

_DISCONNECTED: Final = 499
"""The status of a request whose client has left, in the log."""


class Admission:
    """ASGI middleware that logs each request, checks it, and has its route answer.

    A valid X-Request-Id of a request is kept, otherwise one is made; the answer has it, too. A
    `traceparent` continues its trace. An unexpected error is logged under an incident id, and the
    caller learns only that id. A client that leaves is no error: what is sent to it is lost.

    Args:
        app: FastAPI, which answers what no route is for: pages, and unknown paths and methods.
        parts: The parts of the service.
        routes: The routes of calls, in the order in which one is looked for.
    """

    def __init__(self, app: ASGIApp, *, parts: Parts, routes: Sequence[CallRoute]) -> None:
        self._app = app
        self._routes = routes
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
                call.status = message["status"]
                named = (b"x-request-id", identity.encode())
                message["headers"] = [*message.get("headers", ()), named]
            try:
                await send(message)
            except OSError as error:
                raise ClientDisconnect from error

        call = Call(scope, receive, send_with_id)
        try:
            await self._answer(call)
        except ClientDisconnect:
            call.status = _DISCONNECTED
        except Exception:
            incident = uuid.uuid4().hex
            logger.exception("incident %s", incident)
            self._metrics.incidents.inc()
            if call.status is not None:
                raise  # the answer has begun, so the server breaks off the connection
            with suppress(ClientDisconnect):
                await call.answer(answer_incident(incident))
        finally:
            if call.tenant.name:
                self._descriptors.leave(call.tenant.name)
            self._record(call, time.perf_counter() - began)
            request_id.reset(tokens[0])
            trace_parent.reset(tokens[1])

    async def _answer(self, call: Call) -> None:
        """Makes the checks, and has the call's route answer."""
        scope = call.scope
        route = self._find_route(scope)
        try:
            needs_host = scope["http_version"] == "1.1"
            check_host(call.headers.getlist("host"), call.parts.settings, is_needed=needs_host)
            await check_caller(call)
            if route is not None:
                await route.answer(call)
                return
        except REFUSALS as error:
            if call.status is not None:
                raise  # breaks the answer off
            await call.answer(describe_error(error))
            return
        await self._app(scope, call.receive, call.send)

    def _find_route(self, scope: Scope) -> CallRoute | None:
        # RFC 9110, section 9.1, wants HEAD wherever there is GET. The server leaves the body out.
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        for route in self._routes:
            if method in (route.methods or ()) and (found := route.path_regex.match(scope["path"])):
                scope.update(path_params=found.groupdict(), route=route)
                return route
        return None

    def _record(self, call: Call, seconds: float) -> None:
        route = getattr(call.scope.get("route"), "path", "other")
        method, path, status = call.method, call.scope["path"], call.status or _DISCONNECTED
        # A stream lasts as long as its caller listens: that is no latency.
        latency = None if route.endswith("/events") else seconds
        self._metrics.record_request(method, route, status, latency)
        if not logger.isEnabledFor(logging.DEBUG):
            return
        client = call.client.host if call.client else "unix"
        fields = {
            "client": client,
            "method": method,
            "path": path,
            "route": route,
            "status": status,
            "seconds": round(seconds, 6),
        }
        shown = ascii(client)[1:-1]  # it may come from a proxy's header
        words = "%s %r %d %.1f ms for %s"
        logger.debug(words, method, path, status, seconds * 1e3, shown, extra={FIELDS: fields})
