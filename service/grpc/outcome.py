"""How a call ends: with its answer, or with a status; each is counted and logged."""

import asyncio
import json
import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import grpc
from starlette.datastructures import Headers

from wavetrim.service.api.problem_kinds import REFUSALS
from wavetrim.service.api.problems import describe_refusal
from wavetrim.service.grpc.messages import SERVICE
from wavetrim.service.telemetry.logs import FIELDS, request_id, take_request_id
from wavetrim.service.telemetry.metrics import Metrics
from wavetrim.service.telemetry.trace import read_trace_parent, trace_parent

logger = logging.getLogger(__name__)

Work = Callable[[Any], Awaitable[bytes | None]]
"""Answers a call, given gRPC's context; None if the answers of a stream have been sent."""

MOST_DETAIL_BYTES: Final = 1024
"""The most bytes of a refusal's words. They travel in a header, of which clients and proxies take
few KiB: with a longer one the caller would see another error. Chosen."""

_OK: Final = 200
_LEFT: Final = 499
_INTERNAL: Final = 500
"""Statuses in the metrics: those of the same calls over HTTP."""

_CODES: Final = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    408: grpc.StatusCode.DEADLINE_EXCEEDED,
    409: grpc.StatusCode.FAILED_PRECONDITION,
    413: grpc.StatusCode.INVALID_ARGUMENT,
    415: grpc.StatusCode.INVALID_ARGUMENT,
    422: grpc.StatusCode.INVALID_ARGUMENT,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
    507: grpc.StatusCode.RESOURCE_EXHAUSTED,
}
"""gRPC's status by that of HTTP; all others are INTERNAL."""


@dataclass(frozen=True, slots=True)
class _Ending:
    """How a call ends.

    Attributes:
        status: Its status in the metrics.
        answer: The answer of a call that succeeded.
        detail: Why it is refused; None if it is not.
    """

    status: int
    answer: bytes | None = None
    detail: str | None = None


def make_handler(name: str, work: Work, headers: Headers, metrics: Metrics) -> Any:
    """The handler of a call for gRPC: it ends the call with a status if the work raises.

    Args:
        name: Name of the call.
        work: Answers it.
        headers: Its metadata.
        metrics: Counts it.
    """

    async def handle(_: Any, context: Any) -> bytes | None:
        identity = take_request_id(headers.get("x-request-id"))
        token = request_id.set(identity)
        trace_parent.set(read_trace_parent(headers.get("traceparent")))  # the call's own context
        context.set_trailing_metadata((("x-request-id", identity),))
        client = context.peer()  # a call that gRPC has ended does not know it any more
        began, status = time.perf_counter(), _LEFT
        try:
            ending = await _find_ending(work, context, metrics)
            status = ending.status
            if ending.detail is not None:
                code = _CODES.get(status, grpc.StatusCode.INTERNAL)
                await context.abort(code, ending.detail)
            return ending.answer
        finally:
            seconds = time.perf_counter() - began
            metrics.record_request("GRPC", f"/{SERVICE}/{name}", status, seconds)
            _log(name, client, status, seconds)
            with suppress(ValueError):  # a call that is given up ends in another context
                request_id.reset(token)

    return handle


def describe_shortly(error: Exception) -> tuple[int, str]:
    """The HTTP status of one of `REFUSALS`, and its words, cut to `MOST_DETAIL_BYTES`."""
    answer = describe_refusal(error)
    detail = str(json.loads(bytes(answer.body))["detail"])
    return answer.status_code, _cut(detail)


async def _find_ending(work: Work, context: Any, metrics: Metrics) -> _Ending:
    """Have a call answered.

    gRPC's objects are a cycle, which keeps the error that ends a call, or that was handled when it
    was ended. The frames of a traceback would keep the message with it, until Python collects
    garbage. So errors leave here without their frames, and calls are ended after this.
    """
    try:
        return _Ending(_OK, answer=await work(context))
    except REFUSALS as error:
        status, detail = describe_shortly(error)
        _cut_off(error)
    except Exception as error:
        incident, status = secrets.token_hex(16), _INTERNAL
        logger.exception("incident %s", incident)
        metrics.incidents.inc()
        detail = f"an unexpected error, logged as incident {incident}"
        _cut_off(error)
    except asyncio.CancelledError as error:
        _cut_off(error)
        raise
    return _Ending(status, detail=detail)


def _cut_off(error: BaseException) -> None:
    """Cut an error off from the frames that it came through, and from the errors before it."""
    error.__cause__ = error.__context__ = error.__traceback__ = None


def _cut(text: str) -> str:
    """A text of which at most `MOST_DETAIL_BYTES` travel, as gRPC writes it: percent-encoded."""
    end = "…"
    left = MOST_DETAIL_BYTES
    for place, character in enumerate(text):
        left -= _count_bytes(character)
        if left < 0:
            kept = text[:place]
            while _count_bytes(kept) + _count_bytes(end) > MOST_DETAIL_BYTES:
                kept = kept[:-1]
            return kept + end
    return text


def _count_bytes(text: str) -> int:
    plain = sum(" " <= character <= "~" and character != "%" for character in text)
    return plain + 3 * (len(text.encode(errors="replace")) - plain)


def _log(name: str, client: str, status: int, seconds: float) -> None:
    fields = {
        "client": client, "method": "GRPC", "route": name, "status": status,
        "seconds": round(seconds, 6),
    }  # fmt: skip
    words = "GRPC %s %d %.1f ms for %s"
    logger.debug(words, name, status, seconds * 1e3, client, extra={FIELDS: fields})
