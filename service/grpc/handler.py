"""Handles calls: first the key, then admission, then the message; refusals become gRPC statuses."""

import asyncio
import json
import logging
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import grpc
from starlette.datastructures import Headers

from wavetrim.service.api.admission.auth import authenticate
from wavetrim.service.api.problem_kinds import REFUSALS
from wavetrim.service.api.problems import ProblemResponse, describe_refusal
from wavetrim.service.api.wire.bodies import Bodies
from wavetrim.service.errors import BodyLengthWrong, BodyTooLarge, UploadStalled
from wavetrim.service.grpc.calls import Call, Calls
from wavetrim.service.grpc.messages import SERVICE, find_message, parse_message
from wavetrim.service.telemetry.logs import FIELDS, request_id, take_request_id
from wavetrim.service.telemetry.trace import read_trace_parent, trace_parent
from wavetrim.service.tenants.tenant import Tenant

logger = logging.getLogger(__name__)

MOST_BYTES: Final = 2**16
"""The longest message of a call without tensors; chosen."""

_OK: Final = 200
_LEFT: Final = 499
_INTERNAL: Final = 500
"""Statuses in the metrics: those of the same calls over HTTP."""

_CODES: Final = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    408: grpc.StatusCode.DEADLINE_EXCEEDED,
    409: grpc.StatusCode.FAILED_PRECONDITION,
    413: grpc.StatusCode.INVALID_ARGUMENT,
    415: grpc.StatusCode.INVALID_ARGUMENT,
    422: grpc.StatusCode.INVALID_ARGUMENT,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
    507: grpc.StatusCode.RESOURCE_EXHAUSTED,
}
"""gRPC's status by that of HTTP; all others are INTERNAL."""


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
        self._bodies = Bodies(state.settings.max_bodies)
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
        if name == "ModelInfer":
            return grpc.stream_unary_rpc_method_handler(self._infer(headers))
        if name == "ModelStreamInfer":
            return grpc.stream_stream_rpc_method_handler(self._infer_stream(headers))
        method = self._methods.get(name)
        if method is None:
            return None
        return grpc.stream_unary_rpc_method_handler(self._answer(name, method, headers))

    def _tell_health(self, name: str) -> Any:
        """The handler of a call that needs no key; its message is not read."""

        async def tell(_: Any, __: Any) -> bytes:
            field = name.removeprefix("Server").lower()
            told = {field: name == "ServerLive" or self._state.inference.ready}
            return _write(find_message(f"{name}Response")(**told))

        return tell

    def _answer(self, name: str, method: _Method, headers: Headers) -> Any:
        async def answer(messages: AsyncIterator[bytes], context: Any) -> bytes:
            async with self._refusing(name, context, headers):
                tenant = await authenticate(headers, self._state, method.scope)
                content = await self._read_one(messages)
                if len(content) > MOST_BYTES:
                    raise BodyTooLarge("message", len(content), f"at most {MOST_BYTES} bytes")
                return _write(await method.call(parse_message(method.request, content), tenant))
            raise AssertionError("a refusal ends the call")

        return answer

    def _infer(self, headers: Headers) -> Any:
        async def infer(messages: AsyncIterator[bytes], context: Any) -> bytes:
            async with self._refusing("ModelInfer", context, headers):
                tenant = await authenticate(headers, self._state, "compute")
                self._state.inference.check_admission()
                async with self._bodies.place_for(None):
                    content = await self._read_one(messages)
                return _write(await self._compute(content, tenant))
            raise AssertionError("a refusal ends the call")

        return infer

    def _infer_stream(self, headers: Headers) -> Any:
        async def infer(messages: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
            async with self._refusing("ModelStreamInfer", context, headers):
                await authenticate(headers, self._state, "compute")
                while (content := await self._read_next(messages)) is not None:
                    # A key may be revoked, a token expire and a quota change while a stream waits.
                    tenant = await authenticate(headers, self._state, "compute")
                    yield _write(await self._compute_in_stream(content, tenant))

        return infer

    async def _compute_in_stream(self, content: bytes, tenant: Tenant) -> Any:
        """The answer to a request in a stream; a refusal does not end the stream."""
        response = find_message("ModelStreamInferResponse")()
        try:
            self._state.inference.check_admission()
            computed = await self._compute(content, tenant)
        except REFUSALS as error:
            response.error_message = _find_detail(describe_refusal(error))
            return response
        response.infer_response.CopyFrom(computed)
        response.infer_response.parameters["triton_final_response"].bool_param = True
        return response

    async def _compute(self, content: bytes, tenant: Tenant) -> Any:
        """The response to a request; until then its bytes count against the caller's quota."""
        give_back = self._state.in_flight.take(tenant, len(content))
        try:
            return await self._calls.infer(content, tenant)
        finally:
            give_back()

    async def _read_one(self, messages: AsyncIterator[bytes]) -> bytes:
        """The first message of a call.

        Raises:
            UploadStalled: It does not come in time.
            BodyLengthWrong: There is none.
        """
        content = await self._read_next(messages)
        if content is None:
            raise BodyLengthWrong("messages", 0, "1")
        return content

    async def _read_next(self, messages: AsyncIterator[bytes]) -> bytes | None:
        """The next message of a call; None after the last.

        Raises:
            UploadStalled: It does not come in time, so that an idle call holds no place for long.
        """
        seconds = self._state.settings.upload_idle_seconds
        try:
            async with asyncio.timeout(seconds):
                return await anext(messages, None)
        except TimeoutError as error:
            limit = f"complete within {seconds:g} s (upload_idle_seconds)"
            raise UploadStalled("message", "incomplete", limit) from error

    @asynccontextmanager
    async def _refusing(self, name: str, context: Any, headers: Headers) -> AsyncIterator[None]:
        """Counts a call, and ends it with a status if the block raises."""
        token = request_id.set(take_request_id(headers.get("x-request-id")))
        trace_parent.set(read_trace_parent(headers.get("traceparent")))  # the call's own context
        began, status = time.perf_counter(), _LEFT
        try:
            yield
            status = _OK
        except REFUSALS as error:
            answer = describe_refusal(error)
            status = answer.status_code
            code = _CODES.get(status, grpc.StatusCode.INTERNAL)
            await context.abort(code, _find_detail(answer))
        except Exception:
            incident, status = secrets.token_hex(16), _INTERNAL
            logger.exception("incident %s", incident)
            self._state.metrics.incidents.inc()
            detail = f"an unexpected error, logged as incident {incident}"
            await context.abort(grpc.StatusCode.INTERNAL, detail)
        finally:
            seconds = time.perf_counter() - began
            self._state.metrics.record_request("GRPC", f"/{SERVICE}/{name}", status, seconds)
            client = context.peer()
            fields = {
                "client": client, "method": "GRPC", "route": name, "status": status,
                "seconds": round(seconds, 6),
            }  # fmt: skip
            words = "GRPC %s %d %.1f ms for %s"
            logger.info(words, name, status, seconds * 1e3, client, extra={FIELDS: fields})
            with suppress(ValueError):  # a stream that is abandoned ends in another context
                request_id.reset(token)


def _write(message: Any) -> bytes:
    content: bytes = message.SerializeToString()
    return content


def _find_detail(answer: ProblemResponse) -> str:
    return str(json.loads(bytes(answer.body))["detail"])
