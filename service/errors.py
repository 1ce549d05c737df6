"""What the service refuses. `api.problems` says which HTTP status each has."""

import math
from collections.abc import Collection, Sequence


class ServiceError(Exception):
    """The root of every error that service/ raises on purpose."""


class FieldProblem(ServiceError):
    """Input that is refused: the field, its value and the limit it breaks.

    Attributes:
        field: Name of the field, header or part of the body.
        value: The value that was refused.
        limit: What would have been accepted, in words.
    """

    def __init__(self, field: str, value: object, limit: str) -> None:
        super().__init__(f"{field} is {value!r}; it must be {limit}")
        self.field = field
        self.value = value
        self.limit = limit


class QueryFieldUnknown(FieldProblem):
    """A query has a field that its call does not know."""

    def __init__(self, field: str, value: str, known: Collection[str]) -> None:
        names = ", ".join(known)
        limit = f"left out: the query fields are {names}" if known else "left out: there are none"
        super().__init__(field[:100], value[:200], limit)


class SettingRefused(FieldProblem):
    """The service does not start with these settings."""


class DatabaseRefused(ServiceError):
    """The service does not start with this database: locked, damaged, newer, or another's."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"the database {url} cannot be used: {reason}")


class DatabaseAway(DatabaseRefused):
    """The database's server cannot be reached; it may be later."""


class DataMismatch(ServiceError):
    """The service does not start: the database is not the one of the data folder."""

    def __init__(self, url: str, of_database: str, folder: str, of_folder: str) -> None:
        super().__init__(
            f"the database {url} (id {of_database}) is not that of the data folder {folder} "
            f"(id {of_folder}), and no matrix was touched; start with the database that belongs to "
            "the folder (WAVETRIM_DATABASE_URL, or a backup restored), or take the folder's "
            "matrices into this one with `wavetrim adopt`"
        )


class NpyError(FieldProblem):
    """The body is not a .npy file that the service takes."""


class DtypeRefused(NpyError):
    """The elements of a .npy file are of a type that the service does not multiply."""


class BodyLengthWrong(FieldProblem):
    """The body is longer or shorter than its .npy header says."""


class BodyTooLarge(FieldProblem):
    """The body is larger than the service takes."""


class RequestMalformed(FieldProblem):
    """What came over a connection is no request."""


class HeadTooLarge(FieldProblem):
    """A request's line and headers are longer, or more, than the service takes."""


class ContentRefused(FieldProblem):
    """The body comes in a media type or an encoding that the service does not read."""


class DigestMalformed(FieldProblem):
    """The Content-Digest header breaks the grammar of RFC 9530."""


class DigestMismatch(FieldProblem):
    """The body is not the one that its Content-Digest header describes."""


class RangeNotSatisfiable(FieldProblem):
    """The Range header asks for bytes behind the end of the file.

    Attributes:
        size_bytes: Length of the file.
    """

    def __init__(self, value: str, size_bytes: int) -> None:
        super().__init__("Range", value, f"a range that begins before byte {size_bytes}")
        self.size_bytes = size_bytes


class IdempotencyKeyRefused(FieldProblem):
    """The Idempotency-Key header cannot be kept."""


class UploadKeyTaken(FieldProblem):
    """The Idempotency-Key belongs to an earlier upload of another matrix."""

    def __init__(self, idempotency_key: str, matrix_id: str) -> None:
        limit = f"a new key, or come with what was stored as matrix {matrix_id} under it"
        super().__init__("Idempotency-Key", idempotency_key, limit)


class ShapesDiffer(FieldProblem):
    """Two operands that cannot be multiplied."""


class StorageFull(FieldProblem):
    """There is no room for another matrix."""


class StoredQuotaReached(StorageFull):
    """A tenant may not store as much.

    Args:
        total_bytes: How much it would be.
        most_bytes: How much it may be.
    """

    def __init__(self, total_bytes: int, most_bytes: int) -> None:
        limit = f"at most {most_bytes}, the key's quota (--max-stored-bytes)"
        super().__init__("stored bytes", total_bytes, limit)


class UploadStalled(FieldProblem):
    """The sender of a request fell silent, or is too slow."""


class MatrixNotFound(ServiceError):
    """No matrix has this id."""

    def __init__(self, matrix_id: str) -> None:
        super().__init__(f"there is no matrix {matrix_id!r}")
        self.field = "id"
        self.value = matrix_id


class MatrixDamaged(ServiceError):
    """The file of this matrix is not the one that was stored."""

    def __init__(self, matrix_id: str, reason: str) -> None:
        super().__init__(f"matrix {matrix_id} is damaged: {reason}; delete it and store it again")
        self.field = "id"
        self.value = matrix_id
        self.limit = "a matrix whose file is as it was stored"


class MatrixInUse(ServiceError):
    """A queued or running job needs this matrix."""

    def __init__(self, matrix_id: str, job_ids: Sequence[str]) -> None:
        super().__init__(f"matrix {matrix_id} is needed by {_list_jobs(job_ids)}")
        self.field = "id"
        self.value = matrix_id
        self.limit = "a matrix that no queued or running job names"


class LeaseNotFound(ServiceError):
    """No lease has this id, or it has ended."""

    def __init__(self, lease_id: str) -> None:
        super().__init__(f"there is no lease {lease_id!r}")
        self.field = "lease"
        self.value = lease_id


class ModelNotFound(FieldProblem):
    """The protocol's model is another one."""

    def __init__(self, name: str, version: str, limit: str) -> None:
        super().__init__("model", f"{name}, version {version}", limit)


class RegionNotFound(ServiceError):
    """No shared memory is registered under this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no region {name!r} of shared memory")
        self.field = "shared_memory_region"
        self.value = name


class LeaseRefused(FieldProblem):
    """A call about leases that has not come over the Unix socket."""


class JobNotFound(ServiceError):
    """No job has this id."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"there is no job {job_id!r}")
        self.field = "id"
        self.value = job_id


class JobFailed(ServiceError):
    """The job behind a synchronous product did not succeed.

    Attributes:
        kind: What failed: "plan", "device", "memory", "verification", "internal" or "cancelled".
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class CursorUnknown(FieldProblem):
    """The cursor was not made by an earlier page."""


class RetryLater(ServiceError):
    """The service cannot take this work now.

    Attributes:
        retry_after_seconds: When to ask again.
    """

    def __init__(self, message: str, retry_after_seconds: int) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class QueueFull(RetryLater):
    """As many jobs wait as may wait."""

    def __init__(self, retry_after_seconds: int) -> None:
        super().__init__("the queue of jobs is full", retry_after_seconds)


class Draining(RetryLater):
    """The service is stopping and takes no new work."""

    def __init__(self, retry_after_seconds: int) -> None:
        super().__init__("the service is stopping and takes no new work", retry_after_seconds)


class Crowded(RetryLater):
    """As many connections are open, or as many bodies come, as may at once.

    Attributes:
        field: What there are too many of.
        value: How many there would be.
        limit: How many there may be, in words.
    """

    def __init__(self, field: str, value: int, limit: str) -> None:
        super().__init__(f"{field} would be {value}; it must be {limit}", 1)
        self.field = field
        self.value = value
        self.limit = limit


class QuotaReached(Crowded):
    """A tenant has as much under way as it may have."""


class IssuerAway(RetryLater):
    """The keys of the tokens' issuer cannot be read now."""

    def __init__(self, retry_after_seconds: float) -> None:
        message = "the keys of the token's issuer cannot be read; the service's log says why"
        super().__init__(message, max(1, math.ceil(retry_after_seconds)))


class Unauthorized(ServiceError):
    """The call has no valid API key or token."""


class ScopeMissing(FieldProblem):
    """The call's key is not for such calls."""


class KeyNameTaken(FieldProblem):
    """A key of this name was made before."""


class KeyNotFound(FieldProblem):
    """No key has this name."""


class HostAmbiguous(FieldProblem):
    """A request with several Host headers, or without the one that it needs."""


class HostRefused(FieldProblem):
    """A call under a foreign name, as a web page makes it by rebinding its own name to loopback."""


def _list_jobs(job_ids: Sequence[str], shown: int = 3) -> str:
    more = f" and {len(job_ids) - shown} more" if len(job_ids) > shown else ""
    return f"job {', '.join(job_ids[:shown])}{more}"
