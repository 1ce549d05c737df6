"""Refusals of jobs. `api.problems` says which HTTP status each has."""

from wavetrim.service.errors import Crowded, FieldProblem, ServiceError
from wavetrim.service.storage.errors import MatrixNotFound


class JobNotFound(ServiceError):
    """No job has this id.

    Args:
        job_id: The id.
        field: Where it was named: "a", "b" or "c" of a job that needs its result; "id" otherwise.
    """

    def __init__(self, job_id: str, field: str = "id") -> None:
        named = f"{field} names job {job_id!r}, which does not exist"
        super().__init__(f"there is no job {job_id!r}" if field == "id" else named)
        self.field, self.value = field, job_id


class JobFailed(ServiceError):
    """A product in one call cannot be computed.

    Attributes:
        kind: What failed: "plan", "device", "memory", "verification", "timeout", "deadline",
            "internal" or "cancelled".
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class QueueFull(Crowded):
    """As many of a caller's jobs, or of its products in one call, wait as may.

    Args:
        field: "queued jobs" or "waiting products".
        value: How many would wait.
        most: How many may.
        retry_after_seconds: When to ask again.
    """

    def __init__(self, field: str, value: int, most: int, retry_after_seconds: int) -> None:
        super().__init__(field, value, f"at most {most} of a caller (max_queued_jobs)")
        self.retry_after_seconds = retry_after_seconds


class ShapesDiffer(FieldProblem):
    """The shapes of two operands do not fit."""


class OperandNotFound(MatrixNotFound):
    """A job names a matrix that does not exist.

    Args:
        field: "a", "b" or "c".
        matrix_id: The id that was named.
    """

    def __init__(self, field: str, matrix_id: str) -> None:
        super().__init__(matrix_id)
        self.args = (f"{field} names matrix {matrix_id!r}, which does not exist",)
        self.field = field


class JobStateConflict(ServiceError):
    """The job's state does not allow what was asked for.

    Args:
        job_id: The job.
        state: Its state, or how it has ended, in words.
        limit: The states that would allow it.
        field: Where it was named: "a", "b" or "c" of a job that needs its result; "state" if it is
            the one that was asked for.
    """

    def __init__(self, job_id: str, state: str, limit: str, field: str = "state") -> None:
        is_asked = field == "state"
        found = (
            f"job {job_id} is {state}" if is_asked else f"{field} names job {job_id}, which {state}"
        )
        super().__init__(f"{found}; it must be {limit}")
        self.field, self.value, self.limit = field, state if is_asked else job_id, limit
