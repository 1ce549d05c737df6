"""Errors as RFC 9457 problem documents, by a table: the status, type and title of each error."""

import json
import logging
import math
import reprlib
from dataclasses import dataclass, replace
from typing import Any, Final

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException
from starlette.routing import Match

from wavetrim.scheduler.errors import FieldError
from wavetrim.service import errors
from wavetrim.service.jobs import errors as job_errors
from wavetrim.service.machine_settings import describe_limit, say_limit
from wavetrim.service.storage import errors as storage_errors
from wavetrim.service.storage.matrices.rows import CommitUnclear

logger = logging.getLogger(__name__)

DATABASE_AWAY: Final = (DBAPIError, PoolTimeout, CommitUnclear)
"""Errors of a database that is locked, full, damaged or out of reach."""


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """How an error looks on the wire.

    Attributes:
        status: HTTP status.
        name: Last part of the problem's type, `urn:wavetrim:problem:<name>`.
        title: A title, the same for every problem of this kind.
    """

    status: int
    name: str
    title: str


NOT_READY: Final = ProblemKind(503, "not-ready", "Not ready")
"""A service or engine that does not work yet. No exception is raised for that."""

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
    errors.UploadStalled: ProblemKind(408, "upload-stalled", "The upload stalled"),
    # Not 5xx, which callers retry: the matrix must be deleted and stored again.
    storage_errors.MatrixDamaged: ProblemKind(
        409, "matrix-damaged", "The stored matrix has changed"
    ),
    storage_errors.MatrixInUse: ProblemKind(409, "matrix-in-use", "The matrix is in use"),
    job_errors.JobStateConflict: ProblemKind(409, "job-state", "The job's state does not allow it"),
    errors.ConditionFailed: ProblemKind(412, "condition-failed", "Not under this condition"),
    errors.BodyTooLarge: ProblemKind(413, "body-too-large", "Body too large"),
    errors.QuotaTooSmall: ProblemKind(413, "quota-too-small", "Larger than the key's quota"),
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
    storage_errors.StorageFailed: ProblemKind(503, "storage-failed", "Storage does not work"),
    **dict.fromkeys(DATABASE_AWAY, ProblemKind(503, "unavailable", "Not available now")),
    storage_errors.StorageFull: ProblemKind(507, "storage-full", "No room for another matrix"),
    storage_errors.StoredQuotaReached: ProblemKind(
        507, "quota-reached", "The key's quota is used up"
    ),
}
"""The table; an error has the entry of its nearest base class."""

REFUSALS: Final[tuple[type[Exception], ...]] = (*PROBLEMS, RequestValidationError)
"""Errors that a route may raise until its answer has begun."""

_JOB_FAILED_STATUS: Final = {
    "plan": 422,
    "cancelled": 409,
    "memory": 507,
    "storage": 507,
    "timeout": 504,
    "deadline": 504,
}
"""Statuses of `JobFailed` by its kind; other kinds have that of the table."""

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

JSON_MALFORMED: Final = ProblemKind(400, "json-malformed", "Malformed JSON")
_INTERNAL: Final = ProblemKind(500, "internal", "Internal error")
_HTTP_TITLES: Final = {404: "No such resource", 405: "Method not allowed"}


def list_titles(status: int) -> list[str]:
    """The titles of all refusals with a status."""
    kinds = [*PROBLEMS.values(), NOT_READY, JSON_MALFORMED]
    titles = dict.fromkeys(kind.title for kind in kinds if kind.status == status)
    failed = ", ".join(name for name, one in _JOB_FAILED_STATUS.items() if one == status)
    return [*titles, *([f"The job failed ({failed})"] if failed else [])]


def describe_error(error: Exception) -> Response:
    """The problem document of one of `REFUSALS`.

    Raises:
        LookupError: It is another error.
    """
    if isinstance(error, RequestValidationError):
        return _describe_invalid(error)
    kind = _find_kind(error)
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
    kind = JSON_MALFORMED if malformed else PROBLEMS[errors.FieldProblem]
    return write_problem(kind, detail, members=members)


def _find_kind(error: Exception) -> ProblemKind:
    """The entry of an error: that of its nearest base class in the table."""
    kind = next((PROBLEMS[base] for base in type(error).__mro__ if base in PROBLEMS), None)
    if kind is None:
        raise LookupError(type(error).__name__)
    if isinstance(error, job_errors.JobFailed):
        kind = replace(kind, status=_JOB_FAILED_STATUS.get(error.kind, kind.status))
    return kind


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
