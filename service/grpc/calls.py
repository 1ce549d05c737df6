"""The protocol's calls, each answered with a message."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, Final

from wavetrim.service.api.v2.inference import Inference, check_regions
from wavetrim.service.api.v2.model import (
    PLATFORM,
    check_model,
    describe_config,
    describe_model,
    describe_statistics,
    list_extensions,
)
from wavetrim.service.api.v2.request import InferRequest, check_request
from wavetrim.service.api.v2.schemas import MODEL_NAME, MODEL_VERSION
from wavetrim.service.api.v2.shared_memory import check_region
from wavetrim.service.errors import BodyTooLarge
from wavetrim.service.grpc.conversion import RawContents, make_document, make_response
from wavetrim.service.grpc.messages import find_message, parse_message
from wavetrim.service.storage.memory.named_regions import NamedRegion
from wavetrim.service.telemetry.metrics import Metrics
from wavetrim.service.tenants.tenant import Tenant
from wavetrim.service.threads import run_to_end
from wavetrim.service.version import find_version

Call = Callable[[Any, Tenant], Awaitable[Any]]
"""Answers a message of a caller."""

MARGIN_BYTES: Final = 2**16
"""Bytes of a message besides its tensors, at most; chosen."""

_THREAD_BYTES: Final = 2**20
"""Longest message that is read or made without a thread; chosen."""


class Calls:
    """Answers the calls of one service.

    Args:
        inference: Computes products.
        metrics: Counts bytes.
        shared_memory: Whether regions can be registered.
        most_bytes: The longest message.
    """

    def __init__(
        self, inference: Inference, metrics: Metrics, *, shared_memory: bool, most_bytes: int
    ) -> None:
        self._inference = inference
        self._metrics = metrics
        self._shared_memory = shared_memory
        self._most_bytes = most_bytes

    async def model_ready(self, request: Any, _: Tenant) -> Any:
        """Whether a model computes; False for an unknown one."""
        there = (request.name, request.version or MODEL_VERSION) == (MODEL_NAME, MODEL_VERSION)
        return _make("ModelReadyResponse", ready=there and self._inference.ready)

    async def server_metadata(self, _: Any, __: Tenant) -> Any:
        """The server's name, version and extensions."""
        extensions = list_extensions(shared_memory=self._shared_memory)
        return _make(
            "ServerMetadataResponse", name=PLATFORM, version=find_version(), extensions=extensions
        )

    async def model_metadata(self, request: Any, _: Tenant) -> Any:
        """The model's inputs and outputs."""
        check_model(request.name, request.version)
        return _make("ModelMetadataResponse", **describe_model())

    async def model_config(self, request: Any, _: Tenant) -> Any:
        """The model's configuration."""
        check_model(request.name, request.version)
        return _make("ModelConfigResponse", config=describe_config())

    async def model_statistics(self, request: Any, tenant: Tenant) -> Any:
        """How often the model was used, and where the time went."""
        check_model(request.name or MODEL_NAME, request.version)
        return _make("ModelStatisticsResponse", **describe_statistics(self._inference, tenant))

    async def repository_index(self, _: Any, __: Tenant) -> Any:
        """The only model."""
        state = "READY" if self._inference.ready else "UNAVAILABLE"
        entry = {"name": MODEL_NAME, "version": MODEL_VERSION, "state": state}
        return _make("RepositoryIndexResponse", models=[entry])

    async def shared_memory_status(self, request: Any, tenant: Tenant) -> Any:
        """A region, or all of them."""
        check_regions(tenant)
        regions = self._inference.regions
        found = [regions.get(request.name)] if request.name else regions.list()
        shown = {region.name: _show(region) for region in found}
        return _make("SystemSharedMemoryStatusResponse", regions=shown)

    async def shared_memory_register(self, request: Any, tenant: Tenant) -> Any:
        """Register existing shared memory."""
        check_regions(tenant)
        asked = {"key": request.key, "offset": request.offset, "byte_size": request.byte_size}
        region = check_region(asked)
        self._inference.regions.register(
            request.name, region.key, offset_bytes=region.offset, size_bytes=region.byte_size
        )
        return _make("SystemSharedMemoryRegisterResponse")

    async def shared_memory_unregister(self, request: Any, tenant: Tenant) -> Any:
        """Forget a region, or all of them."""
        check_regions(tenant)
        self._inference.regions.unregister(request.name or None)
        return _make("SystemSharedMemoryUnregisterResponse")

    async def infer(self, content: bytes, tenant: Tenant) -> Any:
        """Compute products: from the bytes of a request to the message of its response."""
        with self._inference.statistics.count(tenant) as stopwatch:
            began = time.perf_counter()
            message, request = await self._read(content)
            async with AsyncExitStack() as stack:
                raw = RawContents(message.raw_input_contents)
                placed = await self._inference.place(
                    request, tenant, stack, raw.read_into, held_bytes=len(content)
                )
                stopwatch.compute_input = time.perf_counter() - began
                computed = await self._inference.compute(placed, _wait_for_ever, stopwatch)
                ended = time.perf_counter()
                response = await _run(
                    make_response, computed, size_bytes=request.stack.result_bytes
                )
                stopwatch.compute_output = time.perf_counter() - ended
            self._metrics.sent_bytes.inc(request.stack.result_bytes)
            return response

    async def _read(self, content: bytes) -> tuple[Any, InferRequest]:
        """The message of a request, and the request.

        Raises:
            FieldProblem: It is no such message, is for another model, or its response is too long.
            RequestValidationError: It breaks the schema.
        """
        self._metrics.received_bytes.inc(len(content))
        name = "ModelInferRequest"
        message = await _run(parse_message, name, content, size_bytes=len(content))
        check_model(message.model_name, message.model_version)
        request = check_request(make_document(message), strict=False)
        most_bytes = self._most_bytes - MARGIN_BYTES
        if request.part is None and request.stack.result_bytes > most_bytes:
            limit = f"at most {most_bytes} (grpc_max_message_bytes)"
            raise BodyTooLarge("result size", request.stack.result_bytes, limit)
        return message, request


async def _run(function: Callable[..., Any], *args: Any, size_bytes: int) -> Any:
    """Call a function that copies bytes, in a thread if they are many."""
    if size_bytes > _THREAD_BYTES:
        return await run_to_end(function, *args)
    return function(*args)


async def _wait_for_ever() -> None:
    """Never returns: gRPC cancels the call of a caller that leaves."""
    await asyncio.get_running_loop().create_future()


def _make(name: str, /, **fields: Any) -> Any:
    return find_message(name)(**fields)


def _show(region: NamedRegion) -> dict[str, Any]:
    return {
        "name": region.name,
        "key": region.key,
        "offset": region.offset_bytes,
        "byte_size": region.size_bytes,
    }
