"""The server and its one model, `matmul`, as the protocol describes them, and its statistics."""

import time
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path, Response
from starlette.requests import ClientDisconnect

from wavetrim.service.api.calls import Call, CallRoute
from wavetrim.service.api.openapi import list_refusals
from wavetrim.service.api.problems import NOT_READY, write_problem
from wavetrim.service.api.v2.schemas import (
    DATATYPES,
    MODEL_NAME,
    MODEL_VERSION,
    DurationFigures,
    ModelConfig,
    ModelFigures,
    ModelMetadata,
    ModelReadiness,
    ModelStatistics,
    RepositoryEntry,
    RequestFigures,
    ServerMetadata,
    TensorConfig,
    TensorMetadata,
)
from wavetrim.service.errors import ModelNotFound
from wavetrim.service.tenants.tenant import Tenant
from wavetrim.service.version import find_version

ModelName = Annotated[
    str,
    Path(description="`matmul`, the only model.", json_schema_extra={"enum": [MODEL_NAME]}),
]
Version = Annotated[
    str,
    Path(description="`1`, the only version.", json_schema_extra={"enum": [MODEL_VERSION]}),
]

EXTENSIONS: Final = ["binary_tensor_data", "model_configuration", "statistics"]
"""The protocol's extensions that the service has."""

PLATFORM: Final = "wavetrim"

DECLARED: Final = "FP32"
"""The element type that the model declares; a request's own may be any of `DATATYPES`."""

_TOLD: Final = {
    "datatypes": ",".join(DATATYPES),
    "alpha": "1",
    "beta": "0",
    "f": "auto",
    "kernel": "auto",
    "accuracy": "library",
    "verify": "false",
}
"""What the configuration tells of a request: element types, and defaults of parameters."""

MOST_CALLERS: Final = 1000
"""The most callers whose figures are kept, the latest ones; chosen: tokens may name any number."""

router = APIRouter(prefix="/v2", tags=["Open Inference Protocol"], route_class=CallRoute)


def name_model(model_name: ModelName) -> None:
    """Describes, to FastAPI, the path of a call that names a model."""


def name_version(model_name: ModelName, version: Version) -> None:
    """Describes, to FastAPI, the path of a call that names a model's version."""


def check_model(call: Call) -> None:
    """Make sure that a call names the only model or none, and its only version or none.

    Raises:
        ModelNotFound: It does not.
    """
    model_name = call.path_params.get("model_name", MODEL_NAME)
    version = call.path_params.get("version", "")
    if model_name == MODEL_NAME and version in ("", MODEL_VERSION):
        return
    if version:
        named, limit = f"{model_name}, version {version}", f"{MODEL_NAME}, version {MODEL_VERSION}"
        raise ModelNotFound("model", named, limit)
    raise ModelNotFound("model", model_name, MODEL_NAME)


@router.get("")
async def get_server(_call: Call) -> ServerMetadata:
    """Tell the server's name, version and extensions."""
    return ServerMetadata(name=PLATFORM, version=find_version(), extensions=EXTENSIONS)


@router.post("/repository/index")
async def list_models(call: Call) -> list[RepositoryEntry]:
    """List the only model."""
    state: Any = "READY" if call.parts.engine.ready else "UNAVAILABLE"
    return [RepositoryEntry(name=MODEL_NAME, version=MODEL_VERSION, state=state, reason="")]


async def get_model(call: Call) -> ModelMetadata:
    """Tell the model's inputs and outputs."""
    check_model(call)
    tensors = [TensorMetadata(name=name, datatype=DECLARED, shape=[-1, -1]) for name in "ABC"]
    return ModelMetadata(
        name=MODEL_NAME, versions=[MODEL_VERSION], platform=PLATFORM,
        inputs=tensors, outputs=tensors[-1:],
    )  # fmt: skip


async def get_model_ready(call: Call) -> ModelReadiness | Response:
    """Tell whether the model computes."""
    check_model(call)
    if call.parts.engine.ready:
        return ModelReadiness(name=MODEL_NAME, ready=True)
    return write_problem(NOT_READY, "the engine is starting", headers={"Retry-After": "1"})


async def get_model_config(call: Call) -> ModelConfig:
    """Tell the model's configuration."""
    check_model(call)
    tensors = [
        TensorConfig(name=name, data_type=f"TYPE_{DECLARED}", dims=[-1, -1], optional=name == "C")
        for name in "ABC"
    ]
    return ModelConfig(
        name=MODEL_NAME,
        platform=PLATFORM,
        backend=PLATFORM,
        version_policy={"latest": {"num_versions": 1}},
        max_batch_size=0,
        input=tensors,
        output=[tensors[-1].model_copy(update={"optional": False})],
        parameters={name: {"string_value": value} for name, value in _TOLD.items()},
    )


@router.get("/models/stats", name="list_statistics")
async def get_model_statistics(call: Call) -> ModelStatistics:
    """Tell how often the model was used, and where the time went."""
    check_model(call)
    return call.parts.infer_statistics.describe(call.tenant)


_OF_MODEL: Final = (
    ("", get_model, ModelMetadata),
    ("/ready", get_model_ready, ModelReadiness),
    ("/config", get_model_config, ModelConfig),
    ("/stats", get_model_statistics, ModelStatistics),
)

for _prefix, _names in (("", name_model), ("/versions/{version}", name_version)):
    for _path, _function, _answer in _OF_MODEL:
        router.add_api_route(
            f"/models/{{model_name}}{_prefix}{_path}",
            _function,
            response_model=_answer,
            dependencies=[Depends(_names)],
            responses=list_refusals(404),
        )


class InferStatistics:
    """Counts requests. To be used from one event loop."""

    def __init__(self) -> None:
        self._callers: OrderedDict[str, Counter[str]] = OrderedDict()

    @contextmanager
    def count(self, tenant: Tenant) -> Iterator[dict[str, float]]:
        """Count the request that the block answers; a caller that leaves is no failure.

        The block notes how many `products` were asked for, and the seconds of the other parts of
        `RequestFigures`.
        """
        counts = self._callers.setdefault(tenant.name, Counter())
        self._callers.move_to_end(tenant.name)
        if len(self._callers) > MOST_CALLERS:
            self._callers.popitem(last=False)
        noted, began = dict[str, float](), time.perf_counter()
        try:
            yield noted
        except ClientDisconnect:
            raise
        except Exception:
            _add(counts, "fail", time.perf_counter() - began)
            raise
        counts["products"] += int(noted.pop("products"))
        for part, seconds in {**noted, "success": time.perf_counter() - began}.items():
            _add(counts, part, seconds)

    def describe(self, tenant: Tenant) -> ModelStatistics:
        """The figures of a caller in the protocol's form; of all callers if it may see all."""
        total = Counter[str]()
        for name, counts in self._callers.items():
            if tenant.sees in (None, name):
                total += counts
        stats = {
            part: DurationFigures(count=total[part], ns=total[f"{part} ns"])
            for part in RequestFigures.model_fields
        }
        figures = ModelFigures(
            inference_count=total["products"],
            execution_count=total["success"],
            inference_stats=RequestFigures(**stats),
        )
        return ModelStatistics(model_stats=[figures])


def _add(counts: Counter[str], part: str, seconds: float) -> None:
    """Count a part of a request once more."""
    counts[part] += 1
    counts[f"{part} ns"] += round(seconds * 1e9)
