"""Errors as RFC 9457 problem documents: one table says which error has which HTTP status."""

import json
import logging
import math
from dataclasses import dataclass, replace
from typing import Any, Final

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException
from starlette.routing import Match

from wavetrim.scheduler.errors import FieldError
from wavetrim.service import errors
from wavetrim.service.jobs import errors as job_errors
from wavetrim.service.setting_refusal import describe_limit
from wavetrim.service.storage import errors as storage_errors
from wavetrim.service.storage.matrices.publication import CommitUnclear

logger = logging.getLogger(__name__)

MEDIA_TYPE: Final = "application/problem+json"

DATABASE_AWAY: Final = (OperationalError, InterfaceError, PoolTimeout, CommitUnclear)
"""What the database raises while it is locked, full or out of reach."""

_AWAY_SECONDS: Final = 5
"""When to ask again then."""


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """How an error looks on the wire.

    Attributes:
        status: HTTP status.
        name: Last part of the problem's type, `urn:wavetrim:problem:<name>`.
        title: The same for every problem of this kind.
    """

    status: int
    name: str
    title: str


PROBLEMS: Final[dict[type[Exception], ProblemKind]] = {
    storage_errors.NpyError: ProblemKind(400, "npy-malformed", "Not a .npy file of a matrix"),
    errors.BodyLengthWrong: ProblemKind(400, "body-length", "Body of the wrong length"),
    errors.DigestMalformed: ProblemKind(400, "digest-malformed", "Malformed Content-Digest"),
    errors.DigestMismatch: ProblemKind(400, "digest-mismatch", "The body differs from its digest"),
    errors.RequestMalformed: ProblemKind(400, "request-malformed", "Not an HTTP/1.1 request"),
    errors.HostAmbiguous: ProblemKind(400, "host-ambiguous", "Called under no or several names"),
    errors.Unauthorized: ProblemKind(401, "unauthorized", "API key needed"),
    errors.HostRefused: ProblemKind(403, "host-refused", "Called under a foreign name"),
    errors.ScopeMissing: ProblemKind(403, "scope-missing", "The API key is not for such calls"),
    errors.LeaseRefused: ProblemKind(403, "lease-refused", "Leases are for callers on this host"),
    storage_errors.MatrixNotFound: ProblemKind(404, "matrix-not-found", "No such matrix"),
    job_errors.JobNotFound: ProblemKind(404, "job-not-found", "No such job"),
    storage_errors.LeaseNotFound: ProblemKind(404, "lease-not-found", "No such lease"),
    errors.ModelNotFound: ProblemKind(404, "model-not-found", "No such model"),
    storage_errors.RegionNotFound: ProblemKind(404, "region-not-found", "No such region"),
    errors.UploadStalled: ProblemKind(408, "upload-stalled", "The upload stalled"),
    # Not 5xx, which callers repeat: only to delete it and to store it again helps.
    storage_errors.MatrixDamaged: ProblemKind(
        409, "matrix-damaged", "The stored matrix has changed"
    ),
    storage_errors.MatrixInUse: ProblemKind(409, "matrix-in-use", "The matrix is in use"),
    job_errors.JobStateConflict: ProblemKind(409, "job-state", "The job's state does not allow it"),
    errors.BodyTooLarge: ProblemKind(413, "body-too-large", "Body too large"),
    storage_errors.DtypeRefused: ProblemKind(415, "dtype-refused", "Element type not taken"),
    errors.ContentRefused: ProblemKind(415, "content-refused", "Media type or encoding not taken"),
    errors.RangeNotSatisfiable: ProblemKind(416, "range", "Range not satisfiable"),
    job_errors.ShapesDiffer: ProblemKind(422, "shapes", "Shapes that do not fit"),
    errors.FieldProblem: ProblemKind(422, "field", "A field cannot be taken"),
    FieldError: ProblemKind(422, "field", "A field cannot be taken"),
    job_errors.QueueFull: ProblemKind(429, "queue-full", "The queue is full"),
    errors.QuotaReached: ProblemKind(429, "quota-reached", "The key's quota is used up"),
    errors.HeadTooLarge: ProblemKind(431, "head-too-large", "Request line and headers too large"),
    job_errors.JobFailed: ProblemKind(500, "job-failed", "The job failed"),
    errors.RetryLater: ProblemKind(503, "unavailable", "Not available now"),
    errors.Crowded: ProblemKind(503, "crowded", "Too many at once"),
    errors.IssuerAway: ProblemKind(503, "issuer-away", "The token's issuer is away"),
    errors.Draining: ProblemKind(503, "draining", "The service is stopping"),
    **dict.fromkeys(DATABASE_AWAY, ProblemKind(503, "unavailable", "Not available now")),
    storage_errors.StorageFull: ProblemKind(507, "storage-full", "No room for another matrix"),
    storage_errors.StoredQuotaReached: ProblemKind(
        507, "quota-reached", "The key's quota is used up"
    ),
}
"""The one table: the entry of the nearest base class holds."""

REFUSALS: Final[tuple[type[Exception], ...]] = (*PROBLEMS, RequestValidationError)
"""What a route may raise until its answer has begun."""

_MOST_BROKEN: Final = 10
"""How many broken fields one refusal lists."""

METHODS: Final = ("DELETE", "GET", "HEAD", "POST")
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
_JOB_FAILED_STATUS: Final = {
    "plan": 422,
    "cancelled": 409,
    "memory": 507,
    "storage": 507,
    "timeout": 504,
}


class ProblemResponse(JSONResponse):
    """A problem document."""

    media_type = MEDIA_TYPE

    def render(self, content: Any) -> bytes:
        """The document in ASCII, which can repeat whatever was sent: lone surrogates, too."""
        return json.dumps(content, allow_nan=False).encode()


def describe_error(error: Exception) -> ProblemResponse:
    """The problem document of an error of the table.

    Raises:
        LookupError: The error is not in the table.
    """
    kind = next((PROBLEMS[base] for base in type(error).__mro__ if base in PROBLEMS), None)
    if kind is None:
        raise LookupError(type(error).__name__)
    if isinstance(error, job_errors.JobFailed):
        kind = replace(kind, status=_JOB_FAILED_STATUS.get(error.kind, kind.status))
    members = {
        name: to_wire(getattr(error, name))
        for name in ("field", "value", "limit", "kind")
        if hasattr(error, name)
    }
    detail = str(error)
    if isinstance(error, DATABASE_AWAY):
        logger.error("the database does not answer: %s", detail)
        # Its own words hold statements and names of the server's.
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
) -> ProblemResponse:
    """A problem document from its parts; `members` are the extension members."""
    document = {
        "type": f"urn:wavetrim:problem:{kind.name}",
        "title": kind.title,
        "status": kind.status,
        "detail": detail,
    }
    return ProblemResponse({**document, **(members or {})}, kind.status, headers)


def describe_refusal(error: Exception) -> ProblemResponse:
    """The problem document of one of `REFUSALS`."""
    if isinstance(error, RequestValidationError):
        return _describe_invalid(error)
    return describe_error(error)


async def answer_error(_request: Request, error: Exception) -> ProblemResponse:
    """FastAPI's handler of the errors of the table."""
    return describe_error(error)


async def answer_validation(request: Request, error: Exception) -> ProblemResponse:
    """FastAPI's handler of requests that break the schema."""
    assert isinstance(error, RequestValidationError)
    if isinstance(error.body, bytes):  # FastAPI reads as JSON only what is called so
        sent = request.headers.get("content-type", "")
        return describe_error(errors.ContentRefused("Content-Type", sent, "application/json"))
    return _describe_invalid(error)


async def answer_http(request: Request, error: Exception) -> ProblemResponse:
    """FastAPI's handler of its own refusals: unknown paths, wrong methods."""
    assert isinstance(error, HTTPException)
    title = _HTTP_TITLES.get(error.status_code, "Request refused")
    kind = ProblemKind(error.status_code, f"http-{error.status_code}", title)
    headers = dict(error.headers or {})
    detail = f"{error.detail}: {request.method} {request.url.path}"
    if error.status_code == 405:
        headers["Allow"] = ", ".join(_list_methods(request))
        detail += f"; allowed: {headers['Allow']}"
    return write_problem(kind, detail, headers=headers)


def answer_incident(incident: str) -> ProblemResponse:
    """What a caller learns of an error that nobody expected: where to find it in the log."""
    detail = f"an unexpected error, logged as incident {incident}"
    return write_problem(_INTERNAL, detail, members={"incident": incident})


def to_wire(value: object, length: int = 200) -> Any:
    """A value as it may stand in a problem document: JSON, finite and short."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, list | tuple) and len(value) <= 8:
        return [to_wire(item) for item in value]
    text = str(value)
    return text if len(text) <= length else f"{text[:length]}…"


def _describe_invalid(error: RequestValidationError) -> ProblemResponse:
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
    """Whether the database's disk is full: SQLite says it in words, PostgreSQL by its code."""
    original = getattr(error, "orig", None)
    return "disk is full" in str(original) or getattr(original, "sqlstate", None) == "53100"


def _list_methods(request: Request) -> list[str]:
    """The methods that the request's path has; FastAPI names those of one of its routes only."""
    routes = request.app.routes
    scopes = {method: {**request.scope, "method": method} for method in METHODS}
    return [
        method
        for method, scope in scopes.items()
        if any(route.matches(scope)[0] is Match.FULL for route in routes)
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
    # Some of pydantic's messages say what a value must be, others are sentences.
    joint = ": " if broken["limit"] == detail["msg"] else "; it must be "
    return f"{broken['field']} is {value}{joint}{broken['limit']}"


def _describe_broken(detail: dict[str, Any]) -> dict[str, Any]:
    if detail["type"] == "json_invalid":
        return _describe_no_json(detail)
    place = [str(part) for part in detail["loc"]]
    field = to_wire(".".join(place[1:]) or place[0])
    missing = detail["type"] == "missing"
    value = None if missing else to_wire(detail.get("input"))
    return {
        "field": field,
        "value": value,
        "limit": "given" if missing else describe_limit(detail["msg"]),
    }


def _describe_no_json(detail: dict[str, Any]) -> dict[str, Any]:
    """Where a document ends to be JSON; FastAPI tells the place apart from the reason."""
    reason = detail.get("ctx", {}).get("error", detail["msg"])
    place = detail["loc"][-1] if detail["loc"] else None
    where = f" at character {place}" if isinstance(place, int) else ""
    return {"field": "body", "value": f"broken{where}", "limit": f"JSON ({reason})"}
