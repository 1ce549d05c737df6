"""The table of refusals: which error has which HTTP status, type and title."""

from dataclasses import dataclass, replace
from typing import Final

from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from wavetrim.scheduler.errors import FieldError
from wavetrim.service import errors
from wavetrim.service.jobs import errors as job_errors
from wavetrim.service.storage import errors as storage_errors
from wavetrim.service.storage.matrices.drafts import CommitUnclear

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


def find_kind(error: Exception) -> ProblemKind:
    """The entry of an error: that of its nearest base class in the table.

    Raises:
        LookupError: The error is not in the table.
    """
    kind = next((PROBLEMS[base] for base in type(error).__mro__ if base in PROBLEMS), None)
    if kind is None:
        raise LookupError(type(error).__name__)
    if isinstance(error, job_errors.JobFailed):
        kind = replace(kind, status=_JOB_FAILED_STATUS.get(error.kind, kind.status))
    return kind
