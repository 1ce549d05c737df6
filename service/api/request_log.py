"""What surrounds every request: an id, a line in the log, a count, and the last word on errors."""

import logging
import re
import secrets
import time
import uuid
from contextlib import suppress
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wavetrim.service.api.problems import answer_incident
from wavetrim.service.logs import request_id
from wavetrim.service.metrics import Metrics

logger = logging.getLogger(__name__)

_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,64}", re.ASCII)
_QUIET: Final = ("/healthz", "/metrics", "/v2/health/")
_DISCONNECTED: Final = 499


class RequestLog:
    """ASGI middleware around the whole application.

    A request's X-Request-Id is kept when it is a plain one, and made otherwise; the answer has it
    too. An error that nobody expected is logged under an incident id, and the caller is told this
    id and nothing else. A client that leaves is none: what is sent to it from then on is lost.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one connection event."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        sent = Headers(scope=scope).get("x-request-id", "")
        identity = sent if _REQUEST_ID.fullmatch(sent) else secrets.token_hex(16)
        token = request_id.set(identity)
        began = time.perf_counter()
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["X-Request-Id"] = identity
            try:
                await send(message)
            except OSError as error:
                raise ClientDisconnect from error

        try:
            await self._app(scope, receive, send_with_id)
        except ClientDisconnect:
            status = _DISCONNECTED
        except Exception:
            incident = uuid.uuid4().hex
            logger.exception("incident %s", incident)
            if status:
                raise  # the answer has begun: the server breaks the connection off
            with suppress(ClientDisconnect):
                await answer_incident(incident)(scope, receive, send_with_id)
        finally:
            self._record(scope, status or _DISCONNECTED, time.perf_counter() - began)
            request_id.reset(token)

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "other")
        self._metrics.record_request(scope["method"], route, status)
        level = logging.DEBUG if scope["path"].startswith(_QUIET) else logging.INFO
        logger.log(level, "%s %r %d %.1f ms", scope["method"], scope["path"], status, seconds * 1e3)
