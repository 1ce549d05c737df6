"""A call: a request as the checks and the routes see it, and the routes that take one.

FastAPI would read a body before its route is called, and its routing costs a small product 30 µs.
So `admission` calls the routes; FastAPI has them for the OpenAPI document.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property, lru_cache
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_origin

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from pydantic_core import to_json
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from wavetrim.service.api.checks import check_length, check_query, read_media_type
from wavetrim.service.api.json_document import read_json
from wavetrim.service.api.wire.reader import SMALL_BODY_BYTES, BodyReader
from wavetrim.service.errors import ContentRefused, UploadStalled
from wavetrim.service.tenants.tenant import UNKNOWN_TENANT, Tenant

if TYPE_CHECKING:
    from wavetrim.service.parts import Parts

Model = TypeVar("Model", bound=BaseModel)
Result = TypeVar("Result")

MAX_DOCUMENT_BYTES: Final = 2**16
"""The largest JSON body, but for lists of jobs; chosen: a job has some hundred bytes."""

DOCUMENT_SECONDS: Final = 10.0
"""How long a JSON body may take as a whole; chosen."""

JSON: Final = "application/json"


class Call(Request):
    """A request.

    Attributes:
        parts: The parts of the service. Before it has started there are only some, and the checks
            need no others.
        tenant: Who makes the call; a caller who may do nothing until its key is checked.
        status: That of the answer, once it has begun.
        send: The ASGI channel for the answer.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        super().__init__(scope, receive, send)
        self.parts: Parts = scope["app"].state.parts
        self.tenant: Tenant = UNKNOWN_TENANT
        self.status: int | None = None
        self.send = send

    async def answer(self, response: Response) -> None:
        """Send a whole answer."""
        await response(self.scope, self.receive, self.send)

    async def receive_document(self, *, most_bytes: int = MAX_DOCUMENT_BYTES) -> bytes:
        """Receives a whole JSON body, without its content coding.

        Args:
            most_bytes: The longest body.

        Raises:
            ContentRefused: It is not JSON by its media type, or its coding is not known.
            BodyLengthWrong: Its compressed data are cut off, or not alone.
            BodyTooLarge: It is longer than `most_bytes`.
            DigestMismatch: Its SHA-256 differs from Content-Digest.
            UploadStalled: It is not complete within `DOCUMENT_SECONDS`.
            ClientDisconnect: The caller has left before the end.
        """
        media_type = read_media_type(self.headers)
        if media_type != JSON and not media_type.endswith("+json"):
            raise ContentRefused("Content-Type", self.headers.get("content-type", ""), JSON)
        reader = BodyReader(self, media_types=(), head="JSON document")
        check_length(reader.length_bytes, most_bytes, field="body", why="")
        try:
            async with asyncio.timeout(DOCUMENT_SECONDS):
                content = await reader.read_rest(most_bytes)
        except TimeoutError as error:
            value = f"{reader.received_bytes} bytes after {DOCUMENT_SECONDS:g} s"
            limit = f"complete within {DOCUMENT_SECONDS:g} s"
            raise UploadStalled("body", value, limit) from error
        await reader.finish()
        return content

    async def receive_by(
        self, reader: BodyReader, receive: Callable[[], Awaitable[Result]]
    ) -> Result:
        """Receives the body, and counts its bytes. A long one waits for one of few places.

        Args:
            reader: Reads the body.
            receive: Receives it, by the reader.

        Raises:
            Crowded: No place became free in time.
        """
        length = reader.length_bytes
        try:
            if length is not None and length <= SMALL_BODY_BYTES:
                return await receive()
            async with self.parts.bodies.take(self.tenant.name):
                return await receive()
        finally:
            self.parts.metrics.received_bytes.inc(reader.received_bytes)


class CallRoute(APIRoute):
    """A route whose function takes the `Call`, and is called past FastAPI.

    The function takes the call, the parameters of the path, and the model of the query if there is
    one; one that is no coroutine runs in a thread. What it returns is sent as JSON. If it returns
    nothing, it has sent the answer itself, unless that has no content. It may raise `REFUSALS`
    until the answer has begun. FastAPI does not see headers and bodies that are read from the call:
    `openapi_extra` describes them.
    """

    @cached_property
    def _query(self) -> type[BaseModel] | None:
        """The model of its query."""
        models: list[Any] = [one.field_info.annotation for one in self.dependant.query_params]
        return models[0] if models else None

    @cached_property
    def _is_async(self) -> bool:
        return iscoroutinefunction(self.endpoint)

    async def answer(self, call: Call) -> None:
        """Answer a call that has passed the checks.

        Raises:
            QueryFieldUnknown, QueryFieldRepeated, RequestValidationError: A field of the path or of
                the query is not valid.
        """
        fields: dict[str, Any] = {}
        query_string = call.scope["query_string"]
        if self._query is not None:
            fields["query"] = read_query(self._query, query_string)
        elif query_string and self.path.startswith("/v1/"):
            check_query(query_string, {})
        for field in self.dependant.path_params:
            sent = call.path_params[field.alias]
            fields[field.name], errors = field.validate(sent, loc=("path", field.alias))
            if errors:
                raise RequestValidationError(errors)
        if self._is_async:
            result = await self.endpoint(call, **fields)
        else:
            result = await run_in_threadpool(self.endpoint, call, **fields)
        if isinstance(result, Response):
            await call.answer(result)
        elif self.status_code == 204:
            await call.answer(Response(status_code=204))
        elif result is not None:
            left_out = self.response_model_exclude_none
            await call.answer(make_answer(result, self.status_code or 200, exclude_none=left_out))


def make_answer(
    document: Any,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    *,
    exclude_none: bool = False,
) -> Response:
    """An answer that is a JSON document, made from models of pydantic, too."""
    content = to_json(document, exclude_none=exclude_none, inf_nan_mode="null")
    return Response(content, status, headers, media_type=JSON)


@lru_cache(maxsize=256)
def read_query(model: type[Model], query_string: bytes) -> Model:
    """The fields of a query; they must not be changed.

    Raises:
        QueryFieldUnknown, QueryFieldRepeated: As `check_query`.
        RequestValidationError: A field is not valid.
    """
    known = {name: get_origin(one.annotation) is list for name, one in model.model_fields.items()}
    return check_fields(model.model_validate, check_query(query_string, known), "query")


def read_model(model: type[Model], content: bytes) -> Model:
    """The fields of a JSON body.

    Raises:
        RequestValidationError: It is not JSON, or a field is not valid.
        FieldProblem: As `read_json`.
    """
    return check_fields(model.model_validate, read_json(content) if content else None, "body")


def check_fields(validate: Callable[[Any], Result], sent: object, part: str) -> Result:
    """What pydantic makes of the fields of a request.

    Args:
        validate: Makes it.
        sent: The fields.
        part: Where in the request they are: "query" or "body".

    Raises:
        RequestValidationError: A field is not valid.
    """
    try:
        return validate(sent)
    except ValidationError as error:
        broken = [{**one, "loc": (part, *one["loc"])} for one in error.errors(include_url=False)]
        raise RequestValidationError(broken) from error
