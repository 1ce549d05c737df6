"""Routes that carry bodies: plain ASGI, since they receive or send the bytes themselves.

`BodyRoutes` answers them before FastAPI does, whose routing costs a small product 30 µs. A FastAPI
route of the same path is never called: it describes the `BodyRoute` in the OpenAPI document.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.datastructures import Headers
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wavetrim.service.api.admission.auth import check_access
from wavetrim.service.api.admission.query_check import check_query, list_fields
from wavetrim.service.api.problem_kinds import REFUSALS
from wavetrim.service.api.problems import describe_refusal
from wavetrim.service.api.v2.errors import is_protocols

Answer = Callable[[Scope, Receive, Send], Awaitable[None]]
"""Answers a request whose access was checked."""

Model = TypeVar("Model", bound=BaseModel)

DESCRIBES: Final = "this describes a route in the OpenAPI document; a BodyRoute answers it"


class BodyRoute(Route):
    """A route that checks only access and query fields.

    Args:
        path: Path with its parameters in braces.
        answer: Answers; it may raise `REFUSALS` until the answer has begun.
        methods: HTTP methods; GET includes HEAD.
        query: Model of its query; None if it has no fields.
    """

    def __init__(
        self,
        path: str,
        answer: Answer,
        *,
        methods: Sequence[str],
        query: type[BaseModel] | None = None,
    ) -> None:
        endpoint = _Endpoint(self, answer, () if query is None else list_fields(query))
        super().__init__(path, endpoint, methods=methods, include_in_schema=False)


class BodyRoutes:
    """ASGI middleware that answers requests to body routes.

    Args:
        app: Answers all other requests.
        routes: The body routes.
    """

    def __init__(self, app: ASGIApp, routes: Sequence[BodyRoute]) -> None:
        self._app = app
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one connection event."""
        for route in self._routes:
            match, found = route.matches(scope)
            if match is Match.FULL:
                scope.update(found)
                await _answer(route.app, scope, receive, send)
                return
        await self._app(scope, receive, send)


async def _answer(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Answers a request, or refuses it; an error after the answer's begin breaks it off."""
    begun = False

    async def note_begin(message: Message) -> None:
        nonlocal begun
        begun = True
        await send(message)

    try:
        await app(scope, receive, note_begin)
    except REFUSALS as error:
        if begun:
            raise
        await describe_refusal(error)(scope, receive, send)


class _Endpoint:
    """A route's ASGI application; Starlette would not take a function for one."""

    def __init__(self, route: Route, answer: Answer, known: Sequence[str]) -> None:
        self._route = route
        self._answer = answer
        self._known = known

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self._route  # for the request log, as FastAPI's own routes do
        await check_access(scope, Headers(scope=scope))
        if scope["query_string"] and not is_protocols(scope["path"]):
            check_query(scope["query_string"], self._known)
        await self._answer(scope, receive, send)


def read_query(model: type[Model], query_string: bytes) -> Model:
    """The fields of a query.

    Raises:
        RequestValidationError: A field is not valid.
    """
    fields = dict(parse_qsl(query_string.decode("latin-1"), keep_blank_values=True))
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise refuse(error, "query") from error


def read_path(field_type: TypeAdapter[str], scope: Scope, name: str) -> str:
    """A parameter of the path.

    Raises:
        RequestValidationError: It is not valid.
    """
    try:
        return field_type.validate_python(scope["path_params"][name])
    except ValidationError as error:
        raise refuse(error, "path", name) from error


def refuse(error: ValidationError, *place: str) -> RequestValidationError:
    """The error that FastAPI's routes raise for fields that break a schema.

    Args:
        error: The error from pydantic.
        place: Where in the request the fields are: "query", "path" or "body", and names below it.
    """
    broken: list[Mapping[str, Any]] = [
        {**one, "loc": (*place, *one["loc"])} for one in error.errors(include_url=False)
    ]
    return RequestValidationError(broken)
