"""Routes whose bodies are JSON, read as every document is (`api/json_document`)."""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from wavetrim.service.api.json_document import read_json


class JsonRoute(APIRoute):
    """A route that reads its body so."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, whose requests are `JsonRequest`s."""
        handle = super().get_route_handler()

        async def handle_json(request: Request) -> Response:
            return await handle(JsonRequest(request.scope, request.receive))

        return handle_json


class JsonRequest(Request):
    """A request with such a body."""

    async def json(self) -> Any:
        """The document.

        Raises:
            FieldProblem, RequestValidationError: As `read_json`.
        """
        return read_json(await self.body())
