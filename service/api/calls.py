"""A call: a request as the checks and the routes see it, and the routes that take one.

FastAPI would read a body before its route is called, and its routing costs a small product 30 µs.
So routes that carry bodies (`BodyRoute`) receive or send the bytes themselves: `admission` calls
them. The OpenAPI document has them like all others.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_origin
from urllib.parse import parse_qsl

from fastapi import Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.types import Receive, Scope, Send

from wavetrim.service.api.checks import TENANT, check_length
from wavetrim.service.api.json_document import read_json
from wavetrim.service.api.wire.reader import SMALL_BODY_BYTES, BodyReader
from wavetrim.service.errors import BodyTooLarge, UploadStalled
from wavetrim.service.tenants.tenant import UNKNOWN_TENANT, Tenant

if TYPE_CHECKING:
    from wavetrim.service.parts import Parts

Model = TypeVar("Model", bound=BaseModel)
Result = TypeVar("Result")

MAX_DOCUMENT_BYTES: Final = 2**16
"""The largest JSON body, but for lists of jobs; chosen: a job has some hundred bytes."""

DOCUMENT_SECONDS: Final = 10.0
"""How long a JSON body may take as a whole; chosen."""


class Call(Request):
    """A request.

    Attributes:
        parts: The parts of the service. Before it has started there are those of `Frame`, and the
            checks need no others.
        tenant: Who makes the call; a caller who may do nothing until its key is checked.
        send: The ASGI channel for the answer.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        super().__init__(scope, receive, send)
        self.parts: Parts = scope["app"].state.parts
        self.tenant: Tenant = scope.get(TENANT, UNKNOWN_TENANT)
        self.send = send

    async def answer(self, response: Response) -> None:
        """Send a whole answer."""
        await response(self.scope, self.receive, self.send)

    async def json(self) -> Any:
        """The body as a document.

        Raises:
            FieldProblem, RequestValidationError: As `read_json`.
        """
        return read_json(await self.body())

    async def receive_document(self, *, most_bytes: int = MAX_DOCUMENT_BYTES) -> bytes:
        """Receives a whole JSON body, without its content coding.

        Args:
            most_bytes: The longest body.

        Raises:
            ContentRefused: The coding is not known.
            BodyLengthWrong: Its compressed data are cut off, or not alone.
            BodyTooLarge: It is longer than `most_bytes`.
            DigestMismatch: Its SHA-256 differs from Content-Digest.
            UploadStalled: It is not complete within `DOCUMENT_SECONDS`.
            ClientDisconnect: The caller has left before the end.
        """
        reader = BodyReader(self.scope, self.receive, media_types=(), head="JSON document")
        check_length(reader.length_bytes, most_bytes, field="body", why="")
        try:
            async with asyncio.timeout(DOCUMENT_SECONDS):
                content = await reader.read_rest(most_bytes + 1)
        except TimeoutError as error:
            value = f"{reader.received_bytes} bytes after {DOCUMENT_SECONDS:g} s"
            limit = f"complete within {DOCUMENT_SECONDS:g} s"
            raise UploadStalled("body", value, limit) from error
        if len(content) > most_bytes:
            value, limit = f"more than {most_bytes} bytes", f"at most {most_bytes} bytes"
            raise BodyTooLarge("body", value, limit)
        await reader.finish()
        return content

    async def receive_by(
        self, reader: BodyReader, receive: Callable[..., Awaitable[Result]], *args: Any
    ) -> Result:
        """Receives the call's body, and counts its bytes. Long ones wait for one of few places.

        Args:
            reader: Reads the body.
            receive: Receives it, by the reader.
            args: Its arguments.

        Raises:
            Crowded: No place became free in time.
        """
        length = reader.length_bytes
        try:
            if length is not None and length <= SMALL_BODY_BYTES:
                return await receive(*args)
            async with self.parts.bodies.take(self.tenant.name):
                return await receive(*args)
        finally:
            self.parts.metrics.received_bytes.inc(reader.received_bytes)


class CallRoute(APIRoute):
    """A route of FastAPI's whose function may take the `Call`."""

    @cached_property
    def known(self) -> Mapping[str, bool]:
        """The fields of its query, and whether each may be there more than once."""
        return dict(_list_known(self.dependant))

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, whose requests are `Call`s."""
        handle = super().get_route_handler()

        async def handle_call(request: Request) -> Response:
            return await handle(Call(request.scope, request.receive, request._send))

        return handle_call


class BodyRoute(CallRoute):
    """A route whose function receives the body and sends the answer itself, by its `Call`.

    The function takes the call, the parameters of the path, and the model of the query if there is
    one. It may raise `REFUSALS` until the answer has begun. FastAPI does not see headers and bodies
    that are read from the call: `openapi_extra` describes them.
    """

    async def answer(self, call: Call) -> None:
        """Answer a call that has passed the checks.

        Raises:
            RequestValidationError: A field of the path or of the query is not valid.
        """
        fields: dict[str, Any] = {}
        for field in self.dependant.path_params:
            sent = call.path_params[field.alias]
            fields[field.name], errors = field.validate(sent, loc=("path", field.alias))
            if errors:
                raise RequestValidationError(errors)
        for field in self.dependant.query_params:
            model: Any = field.field_info.annotation
            fields[field.name] = read_query(model, call.scope["query_string"])
        await self.endpoint(call, **fields)


def _list_known(dependant: Dependant) -> Iterator[tuple[str, bool]]:
    """The query fields of a route and of its dependencies; whether each is a list."""
    for field in dependant.query_params:
        kind: Any = field.field_info.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            for name, one in kind.model_fields.items():
                yield one.alias or name, False
        else:
            yield field.alias, get_origin(kind) is list
    for needed in dependant.dependencies:
        yield from _list_known(needed)


@lru_cache(maxsize=256)
def read_query(model: type[Model], query_string: bytes) -> Model:
    """The fields of a query; they must not be changed.

    Raises:
        RequestValidationError: A field is not valid.
    """
    fields = dict(parse_qsl(query_string.decode("latin-1"), keep_blank_values=True))
    return check_fields(model.model_validate, fields, "query")


def check_fields(validate: Callable[[Any], Result], sent: object, part: str) -> Result:
    """What pydantic makes of the fields of a request.

    Args:
        validate: Makes it.
        sent: The fields.
        part: Where in the request they are: "query" or "body".

    Raises:
        RequestValidationError: A field is not valid; FastAPI's routes raise the same.
    """
    try:
        return validate(sent)
    except ValidationError as error:
        broken = [{**one, "loc": (part, *one["loc"])} for one in error.errors(include_url=False)]
        raise RequestValidationError(broken) from error
