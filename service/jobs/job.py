"""What a job is asked for, what it is, and the states it goes through.

`JobRequest` is read from HTTP, and kept in the job's row.

A queued job runs, and then succeeds, fails or is cancelled; a queued one can be cancelled at once.
One whose operands are results of other jobs is queued, too, until these have succeeded.
A running job goes back to the queue when the service stops before it has ended.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, WrapValidator

from wavetrim.service.clock import read_clock, read_time
from wavetrim.service.jobs.errors import JobNotFound, JobStateConflict
from wavetrim.service.option_fields import ProductOptions

MOST_TRIES: Final = 3
"""How often a job or a product is tried; the last try uses the CPU alone. Chosen."""

PROMISE: Final = "job:"
"""Begins an operand that is the result of a job which has not succeeded yet; its id follows. When
it succeeds, the id of its result takes the place of both."""

EXAMPLE_ID: Final = "0b8d3a6f5c2e4f1d9a7b6c5d4e3f2a1b"

MatrixId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,40}$", description="Id of a matrix.")]


class JobOperand(BaseModel):
    """The result of another job: a job waits for it, fails with it, and is cancelled with it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    job: str = Field(pattern=r"^[A-Za-z0-9]{1,40}$", description="Id of the job.")


def _check_operand(value: object, check: Callable[[object], object]) -> object:
    """Refuses what is neither; pydantic would list the faults of both."""
    try:
        return check(value)
    except ValidationError:
        raise ValueError('the id of a matrix, or {"job": the id of a job}') from None


OperandName = Annotated[MatrixId | JobOperand, WrapValidator(_check_operand)]

Label = Annotated[
    str,
    Field(
        min_length=1,
        max_length=64,
        pattern=r"^[^\x00-\x1f\x7f]+$",
        description="A word of the caller's own, by which jobs are found and cancelled.",
    ),
]

MOST_LABELS: Final = 8
"""Labels of one job; chosen."""

Priority = Annotated[
    int,
    Field(
        ge=-1000,
        le=1000,
        description="Among the caller's jobs the higher one goes first: 100 more count as twice "
        "the wait.",
    ),
]


def _check_time(value: str) -> str:
    try:
        read_time(value)
    except (ValueError, OverflowError):
        raise ValueError("a time with its zone, such as 2026-03-01T12:00:00Z") from None
    return value


Time = Annotated[
    str,
    AfterValidator(_check_time),
    Field(max_length=40, json_schema_extra={"format": "date-time"}),
]


class JobRequest(ProductOptions):
    """A product to be computed: result = alpha · A·B + beta · C."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        json_schema_extra={
            "examples": [
                {"a": "5f0c7d2e9b1a4c3d8e6f7a8b9c0d1e2f", "b": "91c2b3a4d5e6f708192a3b4c5d6e7f80"},
                {
                    "a": "5f0c7d2e9b1a4c3d8e6f7a8b9c0d1e2f",
                    "b": "91c2b3a4d5e6f708192a3b4c5d6e7f80",
                    "c": "c0ffee00d5e6f708192a3b4c5d6e7f80",
                    "alpha": 0.5,
                    "beta": 1.0,
                    "kernel": "bulk",
                    "tile": "128x256x16",
                    "f": 256,
                    "accuracy": "strict",
                    "sms": 66,
                    "verify": True,
                    "priority": 10,
                    "labels": ["night", "run 7"],
                    "deadline": "2026-03-01T12:05:00Z",
                    "timeout_seconds": 60.0,
                },
                {"a": {"job": EXAMPLE_ID}, "b": "91c2b3a4d5e6f708192a3b4c5d6e7f80"},
            ]
        },
    )

    a: OperandName = Field(description="A, M x K: the id of a matrix, or a job whose result it is.")
    b: OperandName = Field(description="B, K x N, of A's element type; likewise.")
    c: OperandName | None = Field(
        None, description="C, M x N, needed when beta is not 0; likewise."
    )
    storage: Literal["disk", "memory"] = Field(
        "disk",
        description="Where the product is kept: on disk, durable when the job has succeeded, or in "
        "memory only, until the service ends; on disk, too, if the arena has no room for it.",
    )
    priority: Priority = 0
    labels: list[Label] = Field([], max_length=MOST_LABELS, description="Its labels.")
    deadline: Time | None = Field(
        None,
        description="When the job must have ended: it is refused if it should end later, and fails "
        "then.",
    )
    timeout_seconds: float | None = Field(
        None,
        gt=0,
        description="How long it may run, from its begin; at most WAVETRIM_JOB_TIMEOUT_SECONDS.",
    )


Shape = tuple[int, int, str, int | None]
"""Rows, columns and element type of a product, and how many a stack has; None for one product."""


class JobState(StrEnum):
    """Where a job stands."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def finished(self) -> bool:
        """True for the three states that a job never leaves."""
        return self in (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One row of the jobs table, as it was when it was read.

    Attributes:
        id: Opaque id.
        state: Where the job stands.
        priority: The higher one goes first among its owner's.
        request: The request as it was accepted.
        a: Id of the matrix A; `PROMISE` and the id of a job, until that has succeeded.
        b: The same of B.
        c: The same of C, if the request names one.
        shape: That of the product; None in old rows of jobs that have ended.
        result: Id of the product, once the job has succeeded.
        progress: Share of C's rows that is done, 0…1.
        attempts: Tries begun so far.
        cancel_requested: True once a caller has cancelled it.
        plan: What the scheduler chose for the latest try.
        timings: Measured seconds of the successful try.
        verification: Outcome of the check, if one was asked for.
        error: Kind, message and attempts of a failed job.
        created_at: UTC seconds since the epoch.
        started_at: Start of the first try, in the same unit.
        finished_at: End of the last try, in the same unit.
        owner: Name of the tenant to whom the job and its product belong.
        trace: The W3C `traceparent` of the request that asked for it.
        rows_done: Rows of C that each side has finished, while the job runs; only in memory.
    """

    id: str
    state: JobState = JobState.QUEUED
    priority: int
    request: dict[str, Any]
    a: str
    b: str
    c: str | None
    shape: Shape | None
    result: str | None = None
    progress: float = 0.0
    attempts: int = 0
    cancel_requested: bool = False
    plan: dict[str, Any] | None = None
    timings: dict[str, float | None] | None = None
    verification: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    created_at: float
    started_at: float | None = None
    finished_at: float | None = None
    owner: str
    trace: str | None
    rows_done: dict[str, float] | None = None

    @property
    def operands(self) -> dict[str, str]:
        """What it names as A and B, and as C if it names one, by field."""
        named = {"a": self.a, "b": self.b, "c": self.c}
        return {field: one for field, one in named.items() if one is not None}

    @property
    def awaited(self) -> dict[str, str]:
        """The jobs whose results it still waits for, by field."""
        named = self.operands.items()
        return {field: one[len(PROMISE) :] for field, one in named if one.startswith(PROMISE)}

    @property
    def stored(self) -> dict[str, str]:
        """The matrices that it names, by field."""
        named = self.operands.items()
        return {field: one for field, one in named if not one.startswith(PROMISE)}

    def take_results(self, found: Mapping[str, "Job"]) -> "Job":
        """The job with results as operands, as far as those that it waits for have any.

        Raises:
            JobNotFound: One of those does not exist.
            JobStateConflict: One of those has no result, and will have none.
        """
        results: dict[str, Any] = {}
        for field, job_id in self.awaited.items():
            if (job := found.get(job_id)) is None:
                raise JobNotFound(job_id, field)
            if job.state in (JobState.FAILED, JobState.CANCELLED):
                limit = "a job that waits, runs or has succeeded"
                raise JobStateConflict(job_id, job.say_end(), limit, field)
            if job.result is not None:
                results[field] = job.result
        return replace(self, **results) if results else self

    @property
    def labels(self) -> list[str]:
        """The labels that it was posted with."""
        return list(self.request["labels"])

    def say_end(self) -> str:
        """How it has ended without a result, for those that need one."""
        if self.state is JobState.CANCELLED:
            return "was cancelled"
        return f"failed: {(self.error or {}).get('message')}"

    def begin_try(self) -> "Job":
        """The job as its next try begins."""
        started_at = read_clock() if self.started_at is None else self.started_at
        return replace(
            self, state=JobState.RUNNING, attempts=self.attempts + 1, started_at=started_at,
            progress=0.0, rows_done=None, plan=None,
        )  # fmt: skip

    def wait_again(self, attempts: int) -> "Job":
        """The job as it is queued again after some tries."""
        return replace(
            self, state=JobState.QUEUED, attempts=attempts, progress=0.0, plan=None,
            started_at=self.started_at if attempts else None,
        )  # fmt: skip

    def succeed(self) -> "Job":
        """The job as it has succeeded now; it has its result already."""
        return self._end(state=JobState.SUCCEEDED, progress=1.0)

    def fail(self, kind: str, message: str) -> "Job":
        """The job as it has failed now."""
        error = {"kind": kind, "message": message, "attempts": self.attempts}
        return self._end(state=JobState.FAILED, error=error)

    def cancel(self) -> "Job":
        """The job as it is cancelled now."""
        return self._end(state=JobState.CANCELLED, cancel_requested=True)

    def _end(self, **changes: Any) -> "Job":
        return replace(self, finished_at=read_clock(), rows_done=None, **changes)
