"""Schemas of jobs."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

from wavetrim.scheduler.options import PlanOptions
from wavetrim.service.api.option_schemas import (
    AccuracyName,
    DeviceNames,
    JsonRows,
    KernelName,
    SmCount,
    TileName,
    read_options,
)
from wavetrim.service.api.run_schemas import JobTimings, RunPlan, VerificationView
from wavetrim.service.api.schemas import Factor, Owner
from wavetrim.service.jobs.job import Job, JobState

MatrixId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,40}$", description="Id of a matrix.")]

Model = TypeVar("Model", bound=BaseModel)

_EXAMPLE_ID = "0b8d3a6f5c2e4f1d9a7b6c5d4e3f2a1b"
_EXAMPLE_PLAN: JsonDict = {
    "f": 1024,
    "gpu_rows": 15360,
    "kernel": "register",
    "tile": "64x128x16",
    "accuracy": "strict",
    "sms": None,
    "waves": 117,
    "waves_gpu_only": 125,
    "tail_utilization": 0.38,
    "tail_split": False,
    "devices": [
        {"device": "cuda:0", "name": "H200", "rows": 15360, "waves": 117, "seconds": 0.0181},
        {"device": "cpu", "name": "cpu", "rows": 1024, "waves": None, "seconds": 0.0176},
    ],
    "exchanges_b": False,
    "resident": False,
    "predicted": {"gpu_seconds": 0.0181, "cpu_seconds": 0.0176, "total_seconds": 0.0181},
    "speedup_over_gpu": 1.07,
    "speedup_over_cpu": 5.4,
    "no_gpu_reason": None,
}
_EXAMPLE_TIMINGS: JsonDict = {
    "device_wait_seconds": 0.0006,
    "kernel_seconds": 0.0035,
    "transfer_seconds": 0.0179,
    "gpu_seconds": 0.0183,
    "cpu_seconds": 0.0171,
    "total_seconds": 0.0184,
    "f_actual": 8,
}


class JobRequest(BaseModel):
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
                },
            ]
        },
    )

    a: MatrixId = Field(description="Id of A, M x K.")
    b: MatrixId = Field(description="Id of B, K x N, of A's element type.")
    c: MatrixId | None = Field(None, description="Id of C, M x N; needed when beta is not 0.")
    alpha: Factor = Field(
        1.0,
        description="Factor of the product; for integer matrices whole and below 2**53 in size.",
    )
    beta: Factor = Field(0.0, description="Factor of C; at 0 C is not read.")
    kernel: KernelName = "auto"
    tile: TileName = None
    f: JsonRows = "auto"
    accuracy: AccuracyName = None
    sms: SmCount = None
    devices: DeviceNames = None
    verify: bool = Field(False, description="Whether the product is checked before it is stored.")
    storage: Literal["disk", "memory"] = Field(
        "disk",
        description="Where the product is kept: on disk, durable when the job has succeeded, or in "
        "memory only, until the service ends.",
    )
    priority: int = Field(0, ge=-1000, le=1000, description="The higher one runs first.")

    @property
    def options(self) -> PlanOptions:
        """The options for the planner."""
        return read_options(self)


class JobError(BaseModel):
    """Why a job failed."""

    kind: str = Field(
        description=(
            "plan, device, memory, verification, engine, storage, timeout, interrupted or internal."
        )
    )
    message: str = Field(description="What happened, with the values that matter.")
    attempts: int = Field(description="Tries that were made.")


class RowsDoneView(BaseModel):
    """Rows of C that are done."""

    gpu: float = Field(description="By the GPU.")
    cpu: float = Field(description="By the CPU.")
    nodes: float = Field(description="By other hosts; only rows that have come back.")


class JobView(BaseModel):
    """A job as it stands."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": _EXAMPLE_ID,
                    "state": "succeeded",
                    "progress": 1.0,
                    "rows_done": None,
                    "priority": 0,
                    "request": {
                        "a": "5f0c7d2e9b1a4c3d8e6f7a8b9c0d1e2f",
                        "b": "91c2b3a4d5e6f708192a3b4c5d6e7f80",
                    },
                    "plan": _EXAMPLE_PLAN,
                    "timings": _EXAMPLE_TIMINGS,
                    "verification": None,
                    "result": "7e57ab1e5c2e4f1d9a7b6c5d4e3f2a1b",
                    "error": None,
                    "attempts": 1,
                    "cancel_requested": False,
                    "created_at": "2026-03-01T12:00:00.125000Z",
                    "started_at": "2026-03-01T12:00:00.130000Z",
                    "finished_at": "2026-03-01T12:00:00.171000Z",
                    "owner": "ada",
                }
            ]
        }
    )

    id: str = Field(description="Opaque id.")
    state: JobState = Field(description="Where the job stands.")
    progress: float = Field(ge=0, le=1, description="Finished share of C's rows.")
    rows_done: RowsDoneView | None = Field(
        description="Finished rows by device, while the job runs."
    )
    priority: int = Field(description="The higher one runs first.")
    request: JobRequest = Field(description="The request as it was accepted.")
    plan: RunPlan | None = Field(
        description="F, kernel, tile, accuracy, waves, predicted seconds; null until it is made."
    )
    timings: JobTimings | None = Field(description="Measured seconds of a succeeded job.")
    verification: VerificationView | None = Field(
        description="Outcome of the check; null if none was asked for."
    )
    result: str | None = Field(description="Id of the product, which is a stored matrix.")
    error: JobError | None = Field(description="Why the job failed.")
    attempts: int = Field(description="Tries begun so far.")
    cancel_requested: bool = Field(description="True once a caller has cancelled the job.")
    created_at: datetime = Field(description="When the job was posted.")
    started_at: datetime | None = Field(description="When its first try began.")
    finished_at: datetime | None = Field(description="When it ended.")
    owner: Owner


class JobPage(BaseModel):
    """Some jobs, newest first."""

    jobs: list[JobView] = Field(description="The jobs.")
    next_cursor: str | None = Field(description="Where the next page begins; null on the last.")


def show_job(job: Job) -> JobView:
    """The job as it is sent."""
    return JobView(
        id=job.id,
        state=job.state,
        progress=job.progress,
        rows_done=None if job.rows_done is None else RowsDoneView(**job.rows_done),
        priority=job.priority,
        request=JobRequest.model_validate(job.request),
        plan=_show(RunPlan, job.plan),
        timings=_show(JobTimings, job.timings),
        verification=_show(VerificationView, job.verification),
        result=job.result,
        error=JobError.model_validate(job.error) if job.error else None,
        attempts=job.attempts,
        cancel_requested=job.cancel_requested,
        created_at=_show_time(job.created_at),
        started_at=None if job.started_at is None else _show_time(job.started_at),
        finished_at=None if job.finished_at is None else _show_time(job.finished_at),
        owner=job.owner,
    )


def _show(model: type[Model], told: Mapping[str, Any] | None) -> Model | None:
    return model.model_validate(told) if told else None


def _show_time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
