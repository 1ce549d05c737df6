"""Refusals of jobs. `api.problems` says which HTTP status each has."""

from wavetrim.service.clock import show_time
from wavetrim.service.errors import Crowded, FieldProblem, ServiceError
from wavetrim.service.jobs.past import Span
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


class DeadlineMissed(FieldProblem):
    """A job would not end before its deadline.

    Args:
        deadline: The deadline, as it was sent.
        ends: When the job should end.
    """

    def __init__(self, deadline: str, ends: Span) -> None:
        at, low, high = (f"{show_time(one):%Y-%m-%dT%H:%M:%S.%fZ}" for one in ends)
        limit = f"after {low}: the job should end at {at}, and with 90% between {low} and {high}"
        super().__init__("deadline", deadline, limit)


class JobStateConflict(ServiceError):
    """The job's state does not allow what was asked for.

    Attributes:
        field: "state".
        value: The job's state.
        limit: The states that would allow it.
    """

    def __init__(self, job_id: str, state: str, limit: str) -> None:
        super().__init__(f"job {job_id} is {state}; it must be {limit}")
        self.field, self.value, self.limit = "state", state, limit


class OperandEnded(JobStateConflict):
    """A job names another one, whose result it needs, that has none and will have none.

    Attributes:
        field: "a", "b" or "c".
        value: The id that was named.
    """

    def __init__(self, field: str, job_id: str, end: str) -> None:
        limit = "a job that waits, runs or has succeeded"
        super().__init__(job_id, end, limit)
        self.args = (f"{field} names job {job_id}, which {end}; it must be {limit}",)
        self.field, self.value = field, job_id


class ResultMissing(JobStateConflict):
    """A job that has not succeeded has no product."""

    def __init__(self, job_id: str, state: str) -> None:
        super().__init__(job_id, state, "succeeded to have a result")
