"""Schemas of a request for products and its answer, in the protocol's words."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, FailFast, Field

from wavetrim.service.api.v2.datatypes import DATATYPES
from wavetrim.service.option_fields import ProductOptions

MODEL_NAME = "matmul"
MODEL_VERSION = "1"

_MOST_DIMENSIONS = 3

MOST_MICROSECONDS = 2**53
"""The longest timeout; chosen, as any JSON has it."""


def _check_datatype(value: str) -> str:
    if value not in DATATYPES:
        raise ValueError(f"one of {', '.join(DATATYPES)}")
    return value


Datatype = Annotated[
    str, AfterValidator(_check_datatype), Field(json_schema_extra={"enum": list(DATATYPES)})
]
Size = Annotated[int, Field(ge=0, lt=2**40)]


class InputParameters(BaseModel):
    """How an input comes: as binary data after the head, or else in `data`."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    binary_data_size: int = Field(
        default=0, ge=0, description="Bytes of the tensor after the head."
    )


class OutputParameters(BaseModel):
    """How the output is sent."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    binary_data: bool = Field(
        default=False,
        description="Whether it comes as binary data after the head, and not as JSON. Without "
        "it, `binary_data_output` decides.",
    )
    shared_memory_region: None = Field(
        default=None, description="Refused: results are not written to shared memory."
    )


class InputTensor(BaseModel):
    """A, B or C: a matrix, or a stack of matrices of one size."""

    model_config = ConfigDict(frozen=True, strict=True)

    name: Literal["A", "B", "C"]
    datatype: Datatype = Field(description="The same for all inputs, and the output's, too.")
    shape: Annotated[list[Size], FailFast(), Field(min_length=2, max_length=_MOST_DIMENSIONS)] = (
        Field(description="Rows and columns; in front of them the number of matrices of a stack.")
    )
    parameters: InputParameters = InputParameters()
    data: Any = Field(
        default=None,
        description="The elements as numbers, nested like the shape or flat, row by row.",
    )


class OutputTensor(BaseModel):
    """The output, and how it is sent."""

    model_config = ConfigDict(frozen=True, strict=True)

    name: Literal["C"]
    parameters: OutputParameters = OutputParameters()


class InferParameters(ProductOptions):
    """How the product is computed: alpha · A·B + beta · C. Unknown ones are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    priority: int = Field(
        default=0,
        ge=0,
        description="Of the caller's products: 1 goes first, each further step counts as half the "
        "wait; 0 is the usual, as 11.",
    )
    timeout: int = Field(
        default=0,
        ge=0,
        le=MOST_MICROSECONDS,
        description="Microseconds after which the product fails if it is not computed; 0 for none.",
    )
    binary_data_output: bool = Field(
        default=False, description="`binary_data` of an output that does not have it."
    )


class InferHead(BaseModel):
    """A request for a product, or for the products of a stack."""

    model_config = ConfigDict(frozen=True, strict=True)

    id: str = Field(default="", max_length=256, description="Comes back in the answer.")
    inputs: Annotated[list[InputTensor], FailFast(), Field(min_length=2, max_length=3)] = Field(
        description="A and B, and C if beta is not 0."
    )
    outputs: Annotated[list[OutputTensor], FailFast(), Field(max_length=1)] = Field(
        default=[], description="C, the only output, and how it is sent."
    )
    parameters: InferParameters = InferParameters()


class OutputAnswer(BaseModel):
    """The result."""

    name: Literal["C"]
    datatype: Datatype
    shape: list[int] = Field(
        description="Rows and columns; in front of them the number of matrices of a stack."
    )
    parameters: dict[str, Any] = Field(default={}, description="Bytes after the head.")
    data: list[float] | None = Field(
        default=None, description="The elements, row by row, if they were asked for as JSON."
    )


class InferAnswer(BaseModel):
    """The products of a request."""

    id: str = Field(default="", description="The request's own.")
    model_name: str = Field(description="matmul.")
    model_version: str = Field(description="1.")
    parameters: dict[str, int | str] = Field(
        description="f and f_actual, the CPU's rows as planned and as computed; kernel."
    )
    outputs: list[OutputAnswer] = Field(description="C, the only output.")
