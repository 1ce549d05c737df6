"""Errors as RFC 9457 problem documents, by the table in `problem_kinds`."""

import json
import logging
import math
import reprlib
from typing import Any, Final

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match

from wavetrim.service import errors
from wavetrim.service.api.problem_kinds import (
    DATABASE_AWAY,
    PROBLEMS,
    ProblemKind,
    find_kind,
)
from wavetrim.service.machine_settings import describe_limit, say_limit
from wavetrim.service.storage import errors as storage_errors

logger = logging.getLogger(__name__)

MEDIA_TYPE: Final = "application/problem+json"

_AWAY_SECONDS: Final = 5
"""When to ask again after an error of the database; chosen."""

_MOST_BROKEN: Final = 10
"""How many broken fields one refusal lists."""

_MOST_CHARACTERS: Final = 200
"""How many characters of a value a refusal repeats."""

_SHORT: Final = reprlib.Repr()
"""Shows a nested value without walking all of it."""

_MOST_DETAIL: Final = 2000
"""How many characters a refusal's sentence has."""

METHODS: Final = ("DELETE", "GET", "HEAD", "PATCH", "POST")
"""Methods that routes have."""

_JSON_MALFORMED: Final = ProblemKind(400, "json-malformed", "Malformed JSON")
_INTERNAL: Final = ProblemKind(500, "internal", "Internal error")
_HTTP_TITLES: Final = {
    400: "Bad request",
    404: "No such resource",
    405: "Method not allowed",
    413: "Body too large",
    415: "Media type not taken",
}


def is_protocols(path: str) -> bool:
    """Whether a path is one of the Open Inference Protocol's."""
    return path == "/v2" or path.startswith("/v2/")


def describe_error(error: Exception) -> Response:
    """The problem document of one of `REFUSALS`.

    Raises:
        LookupError: It is another error.
    """
    if isinstance(error, RequestValidationError):
        return _describe_invalid(error)
    kind = find_kind(error)
    members = {
        name: to_wire(getattr(error, name))
        for name in ("field", "value", "limit", "kind")
        if hasattr(error, name)
    }
    detail = _cut(str(error), _MOST_DETAIL)
    if isinstance(error, DATABASE_AWAY):
        logger.error("the database does not answer: %s", detail)
        # Its own message may contain statements and names of the server.
        detail = "the database is locked or does not answer; the service's log says more"
        if _is_full(error):
            kind = PROBLEMS[storage_errors.StorageFull]
            detail = "the database has no room on its disk; delete matrices, or make room"
    return write_problem(kind, detail, headers=_find_headers(error), members=members)


def write_problem(
    kind: ProblemKind,
    detail: str,
    *,
    headers: dict[str, str] | None = None,
    members: dict[str, Any] | None = None,
) -> Response:
    """A problem document from its parts; `members` are the extension members."""
    document = {
        "type": f"urn:wavetrim:problem:{kind.name}",
        "title": kind.title,
        "status": kind.status,
        "detail": detail,
        "error": detail,
        **(members or {}),
    }
    # ASCII can repeat anything that was sent, even lone surrogates.
    content = json.dumps(document, allow_nan=False)
    return Response(content, kind.status, headers, media_type=MEDIA_TYPE)


async def answer_http(request: Request, error: Exception) -> Response:
    """FastAPI's handler of its own refusals: unknown paths, wrong methods. It answers OPTIONS."""
    assert isinstance(error, HTTPException)
    title = _HTTP_TITLES.get(error.status_code, "Request refused")
    kind = ProblemKind(error.status_code, f"http-{error.status_code}", title)
    headers = dict(error.headers or {})
    detail = f"{error.detail}: {request.method} {request.url.path}"
    if error.status_code == 405:
        headers["Allow"] = ", ".join(list_methods(request))
        if request.method == "OPTIONS":  # as HAProxy asks whether a service is there
            return Response(status_code=204, headers=headers)
        detail += f"; allowed: {headers['Allow']}"
    return write_problem(kind, detail, headers=headers)


def answer_incident(incident: str) -> Response:
    """The answer for an unexpected error: it says only where to find that in the log."""
    detail = f"an unexpected error, logged as incident {incident}"
    return write_problem(_INTERNAL, detail, members={"incident": incident})


def to_wire(value: object) -> Any:
    """A value for a problem document: as JSON, finite and short."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, list | tuple) and len(value) <= 8 and not any(map(_is_nested, value)):
        return [to_wire(item) for item in value]
    return _cut(_SHORT.repr(value) if _is_nested(value) else str(value))


def _is_nested(value: object) -> bool:
    return isinstance(value, list | tuple | dict)


def _cut(text: str, most: int = _MOST_CHARACTERS) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _describe_invalid(error: RequestValidationError) -> Response:
    """Names the first broken field, and lists the first ten."""
    found = error.errors()
    broken = [_describe_broken(detail) for detail in found[:_MOST_BROKEN]]
    malformed = any(detail["type"] == "json_invalid" for detail in found)
    detail = "; ".join(map(_say_broken, found[:_MOST_BROKEN], broken))
    if len(found) > len(broken):
        detail += f"; and {len(found) - len(broken)} more"
    members = {**broken[0], "errors": broken}
    kind = _JSON_MALFORMED if malformed else PROBLEMS[errors.FieldProblem]
    return write_problem(kind, detail, members=members)


def _is_full(error: Exception) -> bool:
    """Whether the database's disk is full, by SQLite's message or PostgreSQL's code."""
    original = getattr(error, "orig", None)
    return "disk is full" in str(original) or getattr(original, "sqlstate", None) == "53100"


def list_methods(request: Request) -> list[str]:
    """The methods of all routes of the request's path; FastAPI names those of one route only."""
    asked = {one: {**request.scope, "method": "GET" if one == "HEAD" else one} for one in METHODS}
    return [
        method
        for method, scope in asked.items()
        if any(route.matches(scope)[0] is Match.FULL for route in request.app.routes)
    ]


def _find_headers(error: Exception) -> dict[str, str] | None:
    if isinstance(error, errors.RetryLater):
        return {"Retry-After": str(error.retry_after_seconds)}
    if isinstance(error, DATABASE_AWAY):
        return {"Retry-After": str(_AWAY_SECONDS)}
    if isinstance(error, errors.Unauthorized):
        return {"WWW-Authenticate": 'Bearer realm="wavetrim"'}
    if isinstance(error, errors.RangeNotSatisfiable):
        return {"Content-Range": f"bytes */{error.size_bytes}"}
    return None


def _say_broken(detail: dict[str, Any], broken: dict[str, Any]) -> str:
    value = "missing" if detail["type"] == "missing" else repr(broken["value"])
    return f"{broken['field']} is {value}{say_limit(broken['limit'], detail['msg'])}"


def _describe_broken(detail: dict[str, Any]) -> dict[str, Any]:
    if detail["type"] == "json_invalid":
        return {"field": "body", "value": "broken", "limit": f"JSON ({detail['msg']})"}
    names = [str(part) for part in detail["loc"]]
    field = to_wire(".".join(names[1:]) or names[0])
    missing = detail["type"] == "missing"
    value = None if missing else to_wire(detail.get("input"))
    return {
        "field": field,
        "value": value,
        "limit": "given" if missing else describe_limit(detail["msg"]),
    }
