"""Schemas of a product in leases."""

from typing import Annotated

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
from wavetrim.service.api.run_schemas import ProductTimings, VerificationView
from wavetrim.service.api.schemas import DtypeName, Factor, Pair, describe_pair

Count = Annotated[int, Field(ge=0)]

_EXAMPLE_ID = "4b1f0c6a5d2e4f1d9a7b6c5d4e3f2a1b"


def _place(offset_bytes: int, rows: int, columns: int) -> JsonDict:
    return {
        "lease": _EXAMPLE_ID,
        "offset_bytes": offset_bytes,
        "shape": [rows, columns],
        "dtype": "float32",
    }


class LeasedMatrix(BaseModel):
    """A matrix in a lease."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, json_schema_extra={"examples": [_place(0, 2, 3)]}
    )

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


class LeasedProduct(BaseModel):
    """out ← alpha · A·B + beta · C, all of them in leases."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        json_schema_extra={
            "examples": [
                {
                    "a": _place(0, 256, 512),
                    "b": _place(524288, 512, 128),
                    "out": _place(786432, 256, 128),
                }
            ]
        },
    )

    a: LeasedMatrix = Field(description="M x K.")
    b: LeasedMatrix = Field(description="K x N.")
    c: LeasedMatrix | None = Field(None, description="M x N; needed when beta is not 0.")
    out: LeasedMatrix = Field(
        description="M x N: where the result is written; it must not overlap an operand. Operands "
        "of another element type are first converted to its type."
    )
    alpha: Factor = Field(1.0, description="Factor of the product; whole for integer matrices.")
    beta: Factor = Field(0.0, description="Factor of C; at 0 C is not read.")
    kernel: KernelName = "auto"
    tile: TileName = None
    f: JsonRows = "auto"
    accuracy: AccuracyName = None
    sms: SmCount = None
    devices: DeviceNames = None
    verify: bool = Field(False, description="Whether the product is checked before the answer.")

    @property
    def options(self) -> PlanOptions:
        """The options for the planner."""
        return read_options(self)


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
