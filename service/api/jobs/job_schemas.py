"""Schemas of jobs."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from wavetrim.service.api.expected_schemas import ExpectedView, show_expected
from wavetrim.service.api.run_schemas import JobTimings, RunPlan, VerificationView
from wavetrim.service.api.schemas import Owner
from wavetrim.service.clock import show_time
from wavetrim.service.jobs.estimate import Expected
from wavetrim.service.jobs.job import Job, JobState
from wavetrim.service.jobs.request import JobRequest, Priority

Model = TypeVar("Model", bound=BaseModel)


class JobError(BaseModel):
    """Why a job failed, or was cancelled with another one."""

    kind: str = Field(
        description=(
            "plan, device, memory, verification, engine, storage, timeout, deadline, interrupted, "
            "internal, or operand: a job whose result it needs has failed or was cancelled."
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

    id: str = Field(description="Opaque id.")
    state: JobState = Field(description="Where the job stands.")
    progress: float = Field(ge=0, le=1, description="Finished share of C's rows.")
    rows_done: RowsDoneView | None = Field(
        description="Finished rows by device, while the job runs."
    )
    priority: int = Field(description="Of the owner's jobs the higher one goes first.")
    labels: list[str] = Field(description="The labels that it was posted with.")
    request: JobRequest = Field(description="The request as it was accepted.")
    plan: RunPlan | None = Field(
        description="F, kernel, tile, accuracy, waves, predicted seconds; null until it is made."
    )
    timings: JobTimings | None = Field(description="Measured seconds of a succeeded job.")
    verification: VerificationView | None = Field(
        description="Outcome of the check; null if none was asked for."
    )
    result: str | None = Field(description="Id of the product, which is a stored matrix.")
    error: JobError | None = Field(
        description="Why the job failed, or was cancelled if that was with another one."
    )
    attempts: int = Field(description="Tries begun so far.")
    cancel_requested: bool = Field(description="True once a caller has cancelled the job.")
    created_at: datetime = Field(description="When the job was posted.")
    started_at: datetime | None = Field(description="When its first try began.")
    finished_at: datetime | None = Field(description="When it ended.")
    owner: Owner
    expected: ExpectedView | None = Field(
        description="When it begins and ends; null once it has ended."
    )


class JobChange(BaseModel):
    """What of a queued job can be changed."""

    model_config = ConfigDict(extra="forbid")

    priority: Priority


class CancelledView(BaseModel):
    """How many jobs were cancelled together."""

    cancelled: int = Field(description="Jobs that had not ended; running ones end soon.")


class JobPage(BaseModel):
    """Some jobs, newest first."""

    jobs: list[JobView] = Field(description="The jobs.")
    next_cursor: str | None = Field(description="Where the next page begins; null on the last.")


def show_job(job: Job, expected: Expected | None) -> JobView:
    """The job as it is sent, with when it should begin and end."""
    return JobView(
        id=job.id,
        state=job.state,
        progress=job.progress,
        rows_done=None if job.rows_done is None else RowsDoneView(**job.rows_done),
        priority=job.priority,
        labels=job.labels,
        request=JobRequest.model_validate(job.request),
        plan=_show(RunPlan, job.plan),
        timings=_show(JobTimings, job.timings),
        verification=_show(VerificationView, job.verification),
        result=job.result,
        error=JobError.model_validate(job.error) if job.error else None,
        attempts=job.attempts,
        cancel_requested=job.cancel_requested,
        created_at=show_time(job.created_at),
        started_at=None if job.started_at is None else show_time(job.started_at),
        finished_at=None if job.finished_at is None else show_time(job.finished_at),
        owner=job.owner,
        expected=None if expected is None else show_expected(expected),
    )


def _show(model: type[Model], told: Mapping[str, Any] | None) -> Model | None:
    return model.model_validate(told) if told else None
