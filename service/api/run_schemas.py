"""Schemas of how a product was computed: its plan, timings and verification."""

from pydantic import BaseModel, ConfigDict, Field

from wavetrim.service.api.products.plan_schemas import PlanSummary


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
