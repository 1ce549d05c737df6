"""Refusals of the service. `api.problems` says which HTTP status each has.

Those of `storage/` and `jobs/` are in their own `errors`.
"""

import math


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


class SettingRefused(FieldProblem):
    """The service does not start with these settings."""


class BodyLengthWrong(FieldProblem):
    """The body is longer or shorter than its .npy header says."""


class BodyTooLarge(FieldProblem):
    """The body is larger than the service takes."""


class QuotaTooSmall(FieldProblem):
    """The request alone needs more than a quota of its tenant's: it can never be taken."""


class RequestMalformed(FieldProblem):
    """A connection received bytes that are not an HTTP request."""


class HeadTooLarge(FieldProblem):
    """A request's first line and headers are too long, or too many."""


class ContentRefused(FieldProblem):
    """The body comes in a media type or an encoding that the service does not read."""


class DigestMalformed(FieldProblem):
    """The Content-Digest header breaks the grammar of RFC 9530."""


class DigestMismatch(FieldProblem):
    """The body is not the one that its Content-Digest header describes."""


class RangeNotSatisfiable(FieldProblem):
    """The Range header asks for bytes after the end of the file.

    Attributes:
        size_bytes: Length of the file.
    """

    def __init__(self, value: str, size_bytes: int) -> None:
        super().__init__("Range", value, f"a range that begins before byte {size_bytes}")
        self.size_bytes = size_bytes


class ConditionFailed(FieldProblem):
    """A header names the ETags for which alone the request counts, and the matrix has another."""


class UploadStalled(FieldProblem):
    """The sender of a request fell silent, or is too slow."""


class ModelNotFound(FieldProblem):
    """A call of the Open Inference Protocol names a model that is not there."""


class LeaseRefused(FieldProblem):
    """A call about leases that has not come over the Unix socket."""


class CursorUnknown(FieldProblem):
    """The cursor was not made by an earlier page."""


class RetryLater(ServiceError):
    """The service cannot take this work now.

    Attributes:
        retry_after_seconds: When to ask again: whole seconds, at least one.
    """

    def __init__(self, message: str, retry_after_seconds: float) -> None:
        super().__init__(message)
        self.retry_after_seconds = max(1, math.ceil(retry_after_seconds))


class Draining(RetryLater):
    """The service is stopping and takes no new work.

    Args:
        drain_seconds: How long it may take to stop.
    """

    def __init__(self, drain_seconds: float) -> None:
        super().__init__("the service is stopping and takes no new work", drain_seconds)


class Crowded(RetryLater):
    """There are already as many connections, bodies or listeners as there may be at once.

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
    """A tenant has used up one of its quotas."""


class IssuerAway(RetryLater):
    """The keys of the tokens' issuer cannot be read now."""

    def __init__(self, retry_after_seconds: float) -> None:
        message = "the keys of the token's issuer cannot be read; the service's log says why"
        super().__init__(message, retry_after_seconds)


class Unauthorized(ServiceError):
    """The call has no valid API key or token."""


class ScopeMissing(FieldProblem):
    """The call's key lacks the scope that the call needs."""


class HostAmbiguous(FieldProblem):
    """A request has several Host headers, or lacks the one that it needs."""


class HostRefused(FieldProblem):
    """The Host header is a foreign name: a web page may have rebound its own name to loopback."""
