"""Calls: what every request passes until its route answers, and what its route is called with.

`Admission` logs a request, makes the checks, and calls the route. FastAPI would read a body before
its route is called, and its routing costs a small product 30 µs. So it has the routes only for the
OpenAPI document.
"""

import asyncio
import logging
import secrets
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final, TypeVar

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic_core import to_json
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wavetrim.service.api.checks import check_call, check_length, check_query, read_media_type
from wavetrim.service.api.fields import read_query
from wavetrim.service.api.problems import REFUSALS, answer_incident, describe_error
from wavetrim.service.api.wire.reader import SMALL_BODY_BYTES, BodyReader
from wavetrim.service.errors import ContentRefused, UploadStalled
from wavetrim.service.telemetry.logs import (
    FIELDS,
    REQUEST_ID,
    read_trace_parent,
    request_id,
    trace_parent,
)
from wavetrim.service.telemetry.metrics import METHODS
from wavetrim.service.tenants.tenant import UNKNOWN_TENANT, Tenant

if TYPE_CHECKING:
    from wavetrim.service.parts import Parts

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

MAX_DOCUMENT_BYTES: Final = 2**16
"""The largest JSON body, but for lists of jobs; chosen: a job has some hundred bytes."""

DOCUMENT_SECONDS: Final = 10.0
"""How long a JSON body may take as a whole; chosen."""

JSON: Final = "application/json"

_DISCONNECTED: Final = 499
"""The status of a request whose client has left, in the log."""


class Call(Request):
    """A request.

    Attributes:
        parts: The parts of the service. Before it has started there are only some, and the checks
            need no others.
        tenant: Who makes the call; a caller who may do nothing until its key is checked.
        status: That of the answer, once it has begun.
        send: The ASGI channel for the answer.
    """

    def __init__(self, parts: "Parts", scope: Scope, receive: Receive, send: Send) -> None:
        super().__init__(scope, receive, send)
        self.parts = parts
        self.tenant: Tenant = UNKNOWN_TENANT
        self.status: int | None = None
        self.send = send

    async def answer(self, response: Response) -> None:
        """Send a whole answer."""
        await response(self.scope, self.receive, self.send)

    async def receive_document(self, *, most_bytes: int = MAX_DOCUMENT_BYTES) -> bytes:
        """Receives a whole JSON body, without its content coding.

        Args:
            most_bytes: The longest body.

        Raises:
            ContentRefused: It is not JSON by its media type, or its coding is not known.
            BodyLengthWrong: Its compressed data are cut off, or not alone.
            BodyTooLarge: It is longer than `most_bytes`.
            DigestMismatch: Its SHA-256 differs from Content-Digest.
            UploadStalled: It is not complete within `DOCUMENT_SECONDS`.
            ClientDisconnect: The caller has left before the end.
        """
        media_type = read_media_type(self.headers)
        if media_type != JSON and not media_type.endswith("+json"):
            raise ContentRefused("Content-Type", self.headers.get("content-type", ""), JSON)
        reader = BodyReader(self, media_types=(), head="JSON document")
        check_length(reader.length_bytes, most_bytes, field="body", why="")
        try:
            async with asyncio.timeout(DOCUMENT_SECONDS):
                content = await reader.read_rest(most_bytes)
        except TimeoutError as error:
            value = f"{reader.received_bytes} bytes after {DOCUMENT_SECONDS:g} s"
            limit = f"complete within {DOCUMENT_SECONDS:g} s"
            raise UploadStalled("body", value, limit) from error
        await reader.finish()
        return content

    async def receive_by(
        self, reader: BodyReader, receive: Callable[[], Awaitable[Result]]
    ) -> Result:
        """Receives the body, and counts its bytes. A long one waits for one of few places.

        Args:
            reader: Reads the body.
            receive: Receives it, by the reader.

        Raises:
            Crowded: No place became free in time.
        """
        try:
            if reader.length_bytes is not None and reader.length_bytes <= SMALL_BODY_BYTES:
                return await receive()
            async with self.parts.bodies.take(self.tenant.name):
                return await receive()
        finally:
            self.parts.metrics.received_bytes.inc(reader.received_bytes)


class CallRoute(APIRoute):
    """A route whose function takes the `Call`, and is called past FastAPI.

    The function takes the call, the parameters of the path, and the model of the query if there is
    one; one that is no coroutine runs in a thread. What it returns is sent as JSON. If it returns
    nothing, it has sent the answer itself, unless that has no content. It may raise `REFUSALS`
    until the answer has begun. FastAPI does not see headers and bodies that are read from the call:
    `openapi_extra` describes them.
    """

    @cached_property
    def _query(self) -> type[BaseModel] | None:
        """The model of its query."""
        models: list[Any] = [one.field_info.annotation for one in self.dependant.query_params]
        return models[0] if models else None

    @cached_property
    def _is_async(self) -> bool:
        return iscoroutinefunction(self.endpoint)

    async def answer(self, call: Call) -> None:
        """Answer a call that has passed the checks.

        Raises:
            FieldProblem, RequestValidationError: A field of the path or of the query is not valid.
        """
        fields: dict[str, Any] = {}
        query_string = call.scope["query_string"]
        if self._query is not None:
            fields["query"] = read_query(self._query, query_string)
        elif query_string and self.path.startswith("/v1/"):
            check_query(query_string, {})
        for field in self.dependant.path_params:
            sent = call.path_params[field.alias]
            fields[field.name], errors = field.validate(sent, loc=("path", field.alias))
            if errors:
                raise RequestValidationError(errors)
        if self._is_async:
            result = await self.endpoint(call, **fields)
        else:
            result = await run_in_threadpool(self.endpoint, call, **fields)
        if isinstance(result, Response):
            await call.answer(result)
        elif self.status_code == 204:
            await call.answer(Response(status_code=204))
        elif result is not None:
            await call.answer(make_answer(result, self.status_code or 200))


def make_answer(
    document: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """An answer that is a JSON document, made from models of pydantic, too."""
    content = to_json(document, inf_nan_mode="null")
    return Response(content, status, headers, media_type=JSON)


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

    def __init__(self, app: ASGIApp, *, parts: "Parts", routes: Sequence[CallRoute]) -> None:
        self._app, self._parts, self._routes = app, parts, routes
        traces = parts.traces
        self._find_parent = read_trace_parent if traces is None else traces.find_parent

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one connection event."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        sent = dict(reversed(scope["headers"]))  # of several fields of a name the first counts
        identity = sent.get(b"x-request-id", b"").decode("latin-1")
        if not REQUEST_ID.fullmatch(identity):
            identity = secrets.token_hex(16)
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

        call = Call(self._parts, scope, receive, send_with_id)
        try:
            await self._answer(call)
        except ClientDisconnect:
            call.status = _DISCONNECTED
        except Exception:
            incident = uuid.uuid4().hex
            logger.exception("incident %s", incident)
            self._parts.metrics.incidents.inc()
            if call.status is not None:
                raise  # the answer has begun, so the server breaks off the connection
            with suppress(ClientDisconnect):
                await call.answer(answer_incident(incident))
        finally:
            if call.tenant.name:
                self._parts.descriptors.leave(call.tenant.name)
            self._record(call, time.perf_counter() - began)
            request_id.reset(tokens[0])
            trace_parent.reset(tokens[1])

    async def _answer(self, call: Call) -> None:
        """Finds the call's route, makes the checks, and has the route answer."""
        scope, path = call.scope, call.scope["path"]
        # RFC 9110, section 9.1, wants HEAD wherever there is GET. The server leaves the body out.
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        for route in self._routes:
            if method in (route.methods or ()) and (found := route.path_regex.match(path)):
                scope.update(path_params=found.groupdict(), route=route)
                break
        try:
            await check_call(call)
            if "route" in scope:
                await route.answer(call)
                return
        except REFUSALS as error:
            if call.status is not None:
                raise  # breaks the answer off
            await call.answer(describe_error(error))
            return
        await self._app(scope, call.receive, call.send)

    def _record(self, call: Call, seconds: float) -> None:
        route = getattr(call.scope.get("route"), "path", "other")
        method, path, status = call.method, call.scope["path"], call.status or _DISCONNECTED
        metrics, known = self._parts.metrics, method if method in METHODS else "other"
        metrics.requests.labels(known, route, str(status)).inc()
        if not route.endswith("/events"):  # a stream lasts as long as its caller listens
            metrics.latency.labels(known, route).observe(seconds)
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
