"""A plan's options on the wire: fields of jobs, and of the queries of plans and products.

All may be left out. In JSON numbers are numbers; in queries they are text.
"""

import re
from functools import cached_property
from operator import attrgetter
from typing import Annotated, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from wavetrim.scheduler.options import (
    DEVICES_PATTERN,
    NO_OPTIONS,
    OPTION_NAMES,
    Accuracy,
    PlanOptions,
)

Factor = Annotated[float, Field(allow_inf_nan=False)]
"""Alpha or beta."""

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]

_ROWS = Field(description='Rows of C that the CPU computes, 0…M, or "auto".')
_NUMBER: Final = re.compile(r"[0-9]{1,100}")


def _check_f(value: object) -> object:
    whole = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if value != "auto" and not whole:
        raise ValueError('"auto" or a whole number of rows from 0')
    return value


def _read_f(value: object) -> object:
    is_number = isinstance(value, str) and _NUMBER.fullmatch(value)
    return _check_f(int(str(value)) if is_number else value)


_Rows = Annotated[int, Field(ge=0)] | Literal["auto"]

JsonRows = Annotated[_Rows, BeforeValidator(_check_f), _ROWS]
QueryRows = Annotated[_Rows, BeforeValidator(_read_f), _ROWS]


_get_options: Final = attrgetter(*OPTION_NAMES)


class Options(BaseModel):
    """Options of how a product is computed, as fields of a JSON document."""

    kernel: Name = Field(
        default="auto",
        description='A kernel of the catalog, or "auto".',
        examples=["auto", "register"],
    )
    tile: Name | None = Field(
        default=None, description="A tile of that kernel.", examples=["64x128x16"]
    )
    f: JsonRows = "auto"
    accuracy: Accuracy | None = Field(
        default=None,
        description="How exact the GPU's sums are (the CPU's are NumPy's): strict (IEEE fused "
        "multiply-adds in the order of k), library (what NumPy and cuBLAS do as well), or float32 "
        "or float64, for products in that type (errors no larger than those of its sums; tensor "
        "cores may compute them). Without it, library, or that of the kernel that is named.",
        examples=["strict"],
    )
    sms: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="Multiprocessors that the GPU's kernels may use, from 1 to the GPU's number; "
        "without it, all.",
        examples=[66],
    )
    devices: str | None = Field(
        default=None,
        pattern=f"^({DEVICES_PATTERN.pattern})$",
        max_length=100,
        description='GPUs that may be used: "none", or indices such as "0,1", of those that the '
        "service uses; without it, all. The product runs on the fastest set of these.",
        examples=["0,1"],
    )

    @cached_property
    def options(self) -> PlanOptions:
        """The options for the planner.

        If all are left out, it is `NO_OPTIONS` itself: plans are found, and messages written,
        faster.
        """
        options = PlanOptions(*_get_options(self))
        return NO_OPTIONS if options == NO_OPTIONS else options


class OptionQuery(Options):
    """These options as fields of a query."""

    model_config = ConfigDict(frozen=True)

    f: QueryRows = "auto"


class ProductOptions(Options):
    """How a product is computed: alpha · A·B + beta · C."""

    alpha: Factor = Field(
        default=1.0,
        description="Factor of the product; for integer matrices whole and below 2**53 in size.",
    )
    beta: Factor = Field(default=0.0, description="Factor of C; at 0 C is not read.")
    verify: bool = Field(
        default=False, description="Whether the product is checked before it is sent or stored."
    )
