"""Schemas of a product in leases."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from wavetrim.service.api.jobs.job_schemas import ProductTimings, VerificationView
from wavetrim.service.api.schemas import DtypeName, Pair, describe_pair
from wavetrim.service.option_fields import ProductOptions

Count = Annotated[int, Field(ge=0)]


class LeasedMatrix(BaseModel):
    """A matrix in a lease."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    lease: str = Field(description="Id of the lease.", max_length=64)
    offset_bytes: int = Field(
        0, ge=0, description="Where the first element begins: a multiple of an element's size."
    )
    shape: Annotated[tuple[Count, Count], describe_pair(minimum=0)] = Field(
        description="Rows and columns.", strict=False
    )
    dtype: DtypeName = Field(description="Element type.")
    strides_bytes: Pair | None = Field(
        None,
        strict=False,
        description="From one row, and from one column, to the next: positive multiples of an "
        "element's size, so that no element covers another. Without it the rows lie one after "
        "the other, without gaps.",
    )


class LeasedProduct(ProductOptions):
    """out ← alpha · A·B + beta · C, all of them in leases."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    a: LeasedMatrix = Field(description="M x K.")
    b: LeasedMatrix = Field(description="K x N.")
    c: LeasedMatrix | None = Field(None, description="M x N; needed when beta is not 0.")
    out: LeasedMatrix = Field(
        description="M x N: where the result is written; it must not overlap an operand. Operands "
        "of another element type are first converted to its type."
    )


class LeasedAnswer(BaseModel):
    """How a product was computed; the result lies in its lease."""

    f: int = Field(description="Rows of C that the CPU was planned to compute.")
    f_actual: int = Field(description="Rows of C that the CPU has computed.")
    accuracy: str | None = Field(description="How exact the sums of the GPU's kernel are.")
    kernel: str | None = Field(description="That kernel; null if none has run.")
    timings: ProductTimings = Field(description="Measured seconds.")
    verification: VerificationView | None = Field(
        description="Outcome of the check, as for a job; null if none was asked for."
    )
