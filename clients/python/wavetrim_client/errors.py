"""The errors that calls raise.

::

    ClientError
    ├── ServiceUnreachable      no answer: nobody listens there, or the connection broke
    │   └── ServiceTimeout      the service was silent for too long
    ├── ServiceRefused          it answered with a problem document (RFC 9457)
    │   ├── Unauthorized        401, 403: the API key, or the service's name in the URL
    │   ├── NotFound            404: no such matrix or job
    │   └── ServiceBusy         429, 503: the same request may pass later
    ├── JobUnsuccessful         a job that was waited for failed or was cancelled
    ├── WaitTimeout             a job was not finished in time; it goes on
    └── DownloadCorrupted       other bytes arrived than the service announced

A proxy's 502 is a `ServiceUnreachable`, its 504 a `ServiceTimeout`.
Arguments that are not valid raise `ValueError`; files that cannot be read or written, `OSError`.
"""

import copyreg
from collections.abc import Mapping
from typing import Any


class ClientError(Exception):
    """The base of all errors of the client. They can be pickled, so processes can pass them on."""

    def __reduce__(self) -> tuple[Any, ...]:
        # The default would call `__init__` with the message alone, and most take other arguments.
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


class ServiceUnreachable(ClientError):
    """No answer: nobody listens there, or the connection broke.

    Attributes:
        url: Address of the service.
    """

    def __init__(self, url: str, reason: object) -> None:
        super().__init__(f"the service at {url} does not answer: {reason}")
        self.url = url


class ServiceTimeout(ServiceUnreachable):
    """The service was silent for longer than the client's timeout."""


class ServiceRefused(ClientError):
    """The service answered with a problem.

    Attributes:
        status: HTTP status.
        problem: The problem document.
        field: Name of the field that was refused; None if the problem names none.
        value: The value that was refused.
        limit: What would have been accepted, in words.
        retry_after_seconds: When to try again; None if the service does not say.
    """

    def __init__(
        self, status: int, problem: Mapping[str, Any], retry_after_seconds: float | None = None
    ) -> None:
        title = problem.get("title") or f"HTTP status {status}"
        detail = problem.get("detail")
        super().__init__(f"{title}: {detail}" if detail else str(title))
        self.status = status
        self.problem = dict(problem)
        self.field: str | None = problem.get("field")
        self.value: Any = problem.get("value")
        self.limit: str | None = problem.get("limit")
        self.retry_after_seconds = retry_after_seconds


class Unauthorized(ServiceRefused):
    """The API key is missing or wrong, or the service does not accept the name in its URL."""


class NotFound(ServiceRefused):
    """There is no such matrix or job (404)."""


class ServiceBusy(ServiceRefused):
    """The queue is full or the service is stopping (429, 503): the same request may pass later."""


class JobUnsuccessful(ClientError):
    """A job that was waited for ended without a product.

    Attributes:
        job_id: Its id.
        state: "failed" or "cancelled".
        error: The service's report of the failure; None for a cancelled job.
    """

    def __init__(self, job_id: str, state: str, error: Mapping[str, Any] | None) -> None:
        reason = (error or {}).get("message")
        super().__init__(f"job {job_id} {state}" + (f": {reason}" if reason else ""))
        self.job_id = job_id
        self.state = state
        self.error = error


class WaitTimeout(ClientError):
    """A job did not finish within the caller's timeout; it goes on."""


class DownloadCorrupted(ClientError):
    """The bytes that arrived are not those that the service announced; nothing was kept."""
