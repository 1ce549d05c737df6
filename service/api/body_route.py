"""Routes that carry bodies: plain ASGI, since they take or send the bytes themselves.

A `BodyRoute` stands in the application before the FastAPI route of the same path, which is never
called: it says in the OpenAPI document what this one takes and answers.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.datastructures import Headers
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from wavetrim.service.api.auth import check_access

Answer = Callable[[Scope, Receive, Send], Awaitable[None]]
"""Answers a request whose caller may call."""

Model = TypeVar("Model", bound=BaseModel)

DESCRIBES: Final = "this describes a route in the OpenAPI document; a BodyRoute answers it"


class BodyRoute(Route):
    """A route whose caller's access is checked, and nothing else.

    Args:
        path: Path with its parameters in braces.
        answer: Answers; the errors of `service.api.problems` may be raised until it has begun.
        methods: HTTP methods; with GET, HEAD too.
    """

    def __init__(self, path: str, answer: Answer, *, methods: Sequence[str]) -> None:
        super().__init__(path, _Endpoint(self, answer), methods=methods, include_in_schema=False)


class _Endpoint:
    """An object with this method is an ASGI application to Starlette, as a function is not."""

    def __init__(self, route: Route, answer: Answer) -> None:
        self._route = route
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self._route  # its path is counted; FastAPI's own routes do the same
        check_access(Headers(scope=scope), scope["app"].state.settings)
        await self._answer(scope, receive, send)


def read_query(model: type[Model], query_string: bytes) -> Model:
    """What a query asks for.

    Raises:
        RequestValidationError: A field cannot be taken.
    """
    fields = dict(parse_qsl(query_string.decode("latin-1"), keep_blank_values=True))
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise refuse(error, "query") from error


def read_path(field_type: TypeAdapter[str], scope: Scope, name: str) -> str:
    """A parameter of the path.

    Raises:
        RequestValidationError: It cannot be taken.
    """
    try:
        return field_type.validate_python(scope["path_params"][name])
    except ValidationError as error:
        raise refuse(error, "path", name) from error


def refuse(error: ValidationError, *place: str) -> RequestValidationError:
    """The refusal of what breaks a schema, as FastAPI's routes raise it.

    Args:
        error: pydantic's.
        place: Where in the request the fields are: "query", "path" or "body", and names below it.
    """
    broken: list[Mapping[str, Any]] = [
        {**one, "loc": (*place, *one["loc"])} for one in error.errors(include_url=False)
    ]
    return RequestValidationError(broken)
