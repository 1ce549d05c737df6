"""Schemas of jobs, and of how a product was computed: its plan, timings and verification."""

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field

from wavetrim.service.api.products.plan_schemas import PlanSummary
from wavetrim.service.api.schemas import ExpectedView, Owner, show_expected
from wavetrim.service.jobs.ends import Expected
from wavetrim.service.jobs.job import Job, JobRequest, JobState, Priority


class PlanNode(BaseModel):
    """The node of a cluster that computed a product."""

    id: str = Field(description="Its id, as in /v1/devices.")
    host: str = Field(description="Name of its host.")


class RunPlan(PlanSummary):
    """A job's plan; that of one product of a stack. Plans of older jobs may lack fields."""

    node: PlanNode | None = Field(
        None, description="The node that computed it; null for the service's own machine."
    )
    stack: int | None = Field(
        None,
        description="How many products a stack has. Null for one product, which a stack with one "
        "B is, too: of all rows of A, unless F is given.",
    )


class Timings(BaseModel):
    """Measured seconds of a product; of a stack, their sums. Older jobs may have other fields."""

    model_config = ConfigDict(extra="allow")

    kernel_seconds: float | None = Field(None, description="The GPU's kernels.")
    transfer_seconds: float | None = Field(
        None, description="Copies to the GPU and back, which overlap the kernels."
    )
    gpu_seconds: float | None = Field(None, description="The GPU's part, copies included.")
    cpu_seconds: float | None = Field(None, description="The CPU's part.")
    total_seconds: float | None = Field(
        None, description="From the product's start until C is complete."
    )


class JobTimings(Timings):
    """Measured seconds of a job's product."""

    device_wait_seconds: float | None = Field(
        None,
        description="Waiting until all its devices were free, after it was taken from the queue.",
    )
    f_actual: int | None = Field(
        None, description="Rows of C that the CPU has computed; for a stack, of all its products."
    )


class ProductTimings(Timings):
    """Measured seconds of a product in one call."""

    queue_seconds: float | None = Field(None, description="Waiting for the engine.")


class VerificationView(BaseModel):
    """Outcome of the check. Older jobs may lack fields."""

    model_config = ConfigDict(extra="allow")

    passed: bool = Field(description="Always true: a product that does not pass fails its job.")
    max_error: float = Field(
        description="The largest error of the elements that were computed again, in units of the "
        "tolerance."
    )
    tolerance: float = Field(description="The largest max_error that passes.")
    elements_checked: int | None = Field(None, description="Elements that checksums cover.")
    elements_compared: int | None = Field(None, description="Elements that were computed again.")
    detectable_change: float | None = Field(
        None,
        description="A larger change of one element is caught, in units of its row's root mean "
        "square.",
    )
    caught_probability: float | None = Field(
        None,
        description="Probability that two equal changes in a row are caught, if each is four times "
        "as large.",
    )
    wrong_rows: int | None = Field(
        None,
        description="How many rows were wrong, and were computed again.",
    )
    recomputed_on: str | None = Field(None, description="The devices that did so; null for none.")
    seconds: float | None = Field(None, description="Seconds of the check, after the product.")


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
    told = {name: getattr(job, name) for name in JobView.model_fields if name != "expected"}
    shown = None if expected is None else show_expected(expected)
    return JobView.model_validate({**told, "expected": shown})
