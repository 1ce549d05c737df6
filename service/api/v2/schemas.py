"""Schemas in the protocol's words: a request for products, its answer, the server and its model."""

from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, FailFast, Field

from wavetrim.scheduler.problem import ITEM_BYTES
from wavetrim.service.option_fields import ProductOptions

DATATYPES: Final[dict[str, str]] = {
    "FP16": "float16",
    "BF16": "bfloat16",
    "FP32": "float32",
    "FP64": "float64",
    "INT8": "int8",
    "INT16": "int16",
    "INT32": "int32",
    "INT64": "int64",
    "UINT8": "uint8",
    "UINT16": "uint16",
    "UINT32": "uint32",
    "UINT64": "uint64",
}
"""NumPy's names, by the protocol's: all element types except complex ones, which it lacks."""

NAMES: Final[dict[str, str]] = {dtype: name for name, dtype in DATATYPES.items()}
"""The protocol's names, by NumPy's."""

assert set(NAMES) == {name for name in ITEM_BYTES if not name.startswith("complex")}

MODEL_NAME = "matmul"
MODEL_VERSION = "1"

_MOST_DIMENSIONS = 3

MOST_HEAD_BYTES = 8 * 2**20
"""The longest JSON head, enough for two matrices of 400 rows and columns; chosen. Parsing takes up
to 25 times as much memory, so one is read at a time."""

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

    @property
    def priority_of_jobs(self) -> int:
        """The priority as jobs have it; the protocol's highest one is 1."""
        return max(-1000, 1000 - 100 * (self.priority - 1)) if self.priority else 0


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


class ServerMetadata(BaseModel):
    """The server."""

    name: str = Field(description="wavetrim.")
    version: str = Field(description="Its version.")
    extensions: list[str] = Field(description="The protocol's extensions that it has.")


class TensorMetadata(BaseModel):
    """An input or output."""

    name: str = Field(description="A, B or C.")
    datatype: str = Field(description="The declared element type; a request's may be another.")
    shape: list[int] = Field(description="-1 for any size; a stack has one more size, in front.")


class ModelMetadata(BaseModel):
    """A model."""

    name: str = Field(description="matmul.")
    versions: list[str] = Field(description="Its versions.")
    platform: str = Field(description="wavetrim.")
    inputs: list[TensorMetadata] = Field(description="A, B and the optional C.")
    outputs: list[TensorMetadata] = Field(description="C.")


class ModelReadiness(BaseModel):
    """A model that computes."""

    name: str = Field(description="matmul.")
    ready: Literal[True] = Field(description="True; if it is not ready, the call is refused.")


class TensorConfig(BaseModel):
    """An input or output in the configuration."""

    name: str = Field(description="A, B or C.")
    data_type: str = Field(description="The declared element type.")
    dims: list[int] = Field(description="-1 for any size.")
    optional: bool = Field(False, description="Whether it may be left out.")


class ModelConfig(BaseModel):
    """A model's configuration."""

    name: str = Field(description="matmul.")
    platform: str = Field(description="wavetrim.")
    backend: str = Field(description="wavetrim.")
    version_policy: dict[str, Any] = Field(description="The newest version is served.")
    max_batch_size: int = Field(description="0: the protocol's own batches are not needed.")
    input: list[TensorConfig] = Field(description="A, B and the optional C.")
    output: list[TensorConfig] = Field(description="C.")
    parameters: dict[str, dict[str, str]] = Field(
        description="Element types, and the defaults of a request's parameters."
    )


class _Counted(BaseModel):
    """Figures that begin at 0, and are always sent."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)


class DurationFigures(_Counted):
    """How often something happened, and how long it took in all."""

    count: int = Field(default=0, description="How often.")
    ns: int = Field(default=0, description="Nanoseconds.")


def _count(description: str) -> Any:
    return Field(default_factory=DurationFigures, description=description)


class RequestFigures(_Counted):
    """Where the time of requests went."""

    success: DurationFigures = _count("Requests that were answered.")
    fail: DurationFigures = _count("Requests that failed.")
    queue: DurationFigures = _count("Waiting for the engine.")
    compute_input: DurationFigures = _count("Receiving the inputs.")
    compute_infer: DurationFigures = _count("Computing.")
    compute_output: DurationFigures = _count("Making the answer, without sending it.")


class ModelFigures(_Counted):
    """A model's requests, of the caller; for a caller with the scope admin, of all callers."""

    name: str = Field(default=MODEL_NAME, description="matmul.")
    version: str = Field(default=MODEL_VERSION, description="1.")
    inference_count: int = Field(default=0, description="Products that were computed.")
    execution_count: int = Field(default=0, description="Requests that were answered.")
    inference_stats: RequestFigures = Field(
        default_factory=RequestFigures, description="Where their time went."
    )


class ModelStatistics(BaseModel):
    """All models' requests."""

    model_stats: list[ModelFigures] = Field(description="One entry: there is one model.")


class RepositoryEntry(BaseModel):
    """A model of the service."""

    name: str = Field(description="matmul.")
    version: str = Field(description="1.")
    state: Literal["READY", "UNAVAILABLE"] = Field(description="Whether it computes.")
    reason: str = Field(description="Empty.")
