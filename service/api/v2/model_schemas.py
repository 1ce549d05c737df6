"""Schemas that describe the server and its model, in the protocol's words."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from wavetrim.service.api.v2.schemas import MODEL_NAME, MODEL_VERSION


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
