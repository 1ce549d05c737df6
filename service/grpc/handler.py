"""Handles calls: first the key, then admission, then the message."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import grpc
import grpc.aio
from starlette.datastructures import Headers

from wavetrim.service.api.admission.auth import authenticate
from wavetrim.service.api.problem_kinds import REFUSALS
from wavetrim.service.api.wire.bodies import PLACES
from wavetrim.service.api.wire.body_pull import IDLE_SECONDS
from wavetrim.service.errors import BodyLengthWrong, BodyTooLarge, UploadStalled
from wavetrim.service.grpc.calls import Call, Calls
from wavetrim.service.grpc.messages import SERVICE, find_message, parse_message
from wavetrim.service.grpc.outcome import Work, describe_shortly, make_handler
from wavetrim.service.grpc.places import Places
from wavetrim.service.tenants.tenant import Tenant

MOST_BYTES: Final = 2**16
"""The longest message of a call without tensors; chosen."""


@dataclass(frozen=True, slots=True)
class _Method:
    """A call.

    Attributes:
        request: Name of its request message.
        call: Answers it.
        scope: The scope that it needs.
    """

    request: str
    call: Call
    scope: str = "read"


class Handler(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Finds the handler of a call.

    All calls are handled as streams of bytes: otherwise gRPC would receive a whole message before
    the caller's key is checked.

    Args:
        state: The parts of the service.
        calls: Answers calls.
    """

    def __init__(self, state: Any, calls: Calls) -> None:
        self._state = state
        self._calls = calls
        self._coming = Places(PLACES)
        self._streamed = Places(PLACES)
        self._methods = {
            "ModelReady": _Method("ModelReadyRequest", calls.model_ready),
            "ServerMetadata": _Method("ServerMetadataRequest", calls.server_metadata),
            "ModelMetadata": _Method("ModelMetadataRequest", calls.model_metadata),
            "ModelConfig": _Method("ModelConfigRequest", calls.model_config),
            "ModelStatistics": _Method("ModelStatisticsRequest", calls.model_statistics),
            "RepositoryIndex": _Method("RepositoryIndexRequest", calls.repository_index),
            "SystemSharedMemoryStatus": _Method(
                "SystemSharedMemoryStatusRequest", calls.shared_memory_status
            ),
            "SystemSharedMemoryRegister": _Method(
                "SystemSharedMemoryRegisterRequest", calls.shared_memory_register, "compute"
            ),
            "SystemSharedMemoryUnregister": _Method(
                "SystemSharedMemoryUnregisterRequest", calls.shared_memory_unregister, "compute"
            ),
        }

    def service(self, handler_call_details: Any) -> Any:
        """The handler of a call; None if there is no such call."""
        service, _, name = handler_call_details.method.removeprefix("/").partition("/")
        if service != SERVICE:
            return None
        metadata = handler_call_details.invocation_metadata or ()
        headers = Headers({key: value for key, value in metadata if isinstance(value, str)})
        if name in ("ServerLive", "ServerReady"):
            return grpc.stream_unary_rpc_method_handler(self._tell_health(name))
        work = self._find_work(name, headers)
        if work is None:
            return None
        handle = make_handler(name, work, headers, self._state.metrics)
        if name == "ModelStreamInfer":
            return grpc.stream_stream_rpc_method_handler(handle)
        return grpc.stream_unary_rpc_method_handler(handle)

    def _find_work(self, name: str, headers: Headers) -> Work | None:
        if name == "ModelInfer":
            return self._infer(headers)
        if name == "ModelStreamInfer":
            return self._infer_stream(headers)
        method = self._methods.get(name)
        return None if method is None else self._answer(method, headers)

    def _tell_health(self, name: str) -> Any:
        """The handler of a call that needs no key; its message is not read."""

        async def tell(_: Any, __: Any) -> bytes:
            field = name.removeprefix("Server").lower()
            told = {field: name == "ServerLive" or self._state.inference.ready}
            return _write(find_message(f"{name}Response")(**told))

        return tell

    def _answer(self, method: _Method, headers: Headers) -> Work:
        async def answer(context: Any) -> bytes:
            tenant = await authenticate(headers, self._state, method.scope)
            content = await self._read_one(context)
            if len(content) > MOST_BYTES:
                raise BodyTooLarge("message", len(content), f"at most {MOST_BYTES} bytes")
            return _write(await method.call(parse_message(method.request, content), tenant))

        return answer

    def _infer(self, headers: Headers) -> Work:
        async def infer(context: Any) -> bytes:
            tenant = await authenticate(headers, self._state, "compute")
            self._state.inference.check_admission()
            async with self._coming.place_for(tenant):
                content = await self._read_one(context)
            with self._count(content, tenant):
                return _write(await self._calls.infer(content, tenant))

        return infer

    def _infer_stream(self, headers: Headers) -> Work:
        async def infer(context: Any) -> None:
            await authenticate(headers, self._state, "compute")
            while await self._answer_next(context, headers):
                pass

        return infer

    async def _answer_next(self, context: Any, headers: Headers) -> bool:
        """Answer the next request of a stream; False after the last.

        Nothing of it is held while the stream waits for the one after it.
        """
        content = await self._read_next(context)
        if content is None:
            return False
        # A key may be revoked, a token expire and a quota change while a stream waits.
        tenant = await authenticate(headers, self._state, "compute")
        await context.write(_write(await self._compute_in_stream(content, tenant)))
        return True

    async def _compute_in_stream(self, content: bytes, tenant: Tenant) -> Any:
        """The answer to a request in a stream; a refusal does not end the stream."""
        response = find_message("ModelStreamInferResponse")()
        try:
            self._state.inference.check_admission()
            with self._count(content, tenant):
                async with self._streamed.place_for(tenant):
                    computed = await self._calls.infer(content, tenant)
        except REFUSALS as error:
            _, response.error_message = describe_shortly(error)
            return response
        response.infer_response.CopyFrom(computed)
        response.infer_response.parameters["triton_final_response"].bool_param = True
        return response

    @contextmanager
    def _count(self, content: bytes, tenant: Tenant) -> Iterator[None]:
        """Counts a message against the caller's quota during the block."""
        give_back = self._state.in_flight.take(tenant, len(content))
        try:
            yield
        finally:
            give_back()

    async def _read_one(self, context: Any) -> bytes:
        """The first message of a call.

        Raises:
            UploadStalled: It does not come in time.
            BodyLengthWrong: There is none.
        """
        content = await self._read_next(context)
        if content is None:
            raise BodyLengthWrong("messages", 0, "1")
        return content

    async def _read_next(self, context: Any) -> bytes | None:
        """The next message of a call; None after the last.

        It is read from gRPC's context, since gRPC's iterator would hold it until the one after it.

        Raises:
            UploadStalled: It does not come in time, so that an idle call holds no place for long.
        """
        seconds = IDLE_SECONDS
        try:
            async with asyncio.timeout(seconds):
                content = await context.read()
        except TimeoutError as error:
            limit = f"complete within {seconds:g} s"
            raise UploadStalled("message", "incomplete", limit) from error
        return None if content is grpc.aio.EOF else content


def _write(message: Any) -> bytes:
    content: bytes = message.SerializeToString()
    return content
