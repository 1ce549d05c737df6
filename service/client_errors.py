"""What a client of the service may meet."""

from collections.abc import Mapping
from typing import Any


class ClientError(Exception):
    """The root of every error that the client raises on purpose."""


class ServiceUnreachable(ClientError):
    """No answer: nothing listens there, or the connection broke.

    Attributes:
        url: Where the service was looked for.
    """

    def __init__(self, url: str, reason: object) -> None:
        super().__init__(f"the service at {url} does not answer: {reason}")
        self.url = url


class ServiceRefused(ClientError):
    """The service answered with a problem.

    Attributes:
        status: HTTP status.
        problem: The RFC 9457 problem document; it names field, value and limit where there is
            one to name.
    """

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        title = problem.get("title") or f"HTTP status {status}"
        detail = problem.get("detail")
        super().__init__(f"{title}: {detail}" if detail else str(title))
        self.status = status
        self.problem = dict(problem)


class ServiceBusy(ServiceRefused):
    """The queue is full or the service is stopping (429, 503): the same request may pass later.

    Attributes:
        retry_after_seconds: When the service asks to be tried again; None when it does not say.
    """

    def __init__(
        self, status: int, problem: Mapping[str, Any], retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(status, problem)
        self.retry_after_seconds = retry_after_seconds


class JobUnsuccessful(ClientError):
    """A job that was waited for ended without a product.

    Attributes:
        job_id: Its id.
        state: "failed" or "cancelled".
        error: What the service says of the failure; None for a cancelled job.
    """

    def __init__(self, job_id: str, state: str, error: Mapping[str, Any] | None) -> None:
        reason = (error or {}).get("message") or (error or {}).get("detail")
        super().__init__(f"job {job_id} {state}" + (f": {reason}" if reason else ""))
        self.job_id = job_id
        self.state = state
        self.error = error


class WaitTimeout(ClientError):
    """A job was not finished within the time that its caller would wait; it goes on."""


class DownloadCorrupted(ClientError):
    """The bytes that arrived are not those that the service described; nothing was kept."""
