"""Routes whose bodies are JSON: not compressed, and no object has a name twice.

Python's parser keeps the last of two equal names, so that one of the caller's values would count
and nobody would know which.
"""

import json
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from wavetrim.service.errors import ContentRefused, FieldProblem


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
            ContentRefused: The body is compressed.
            FieldProblem: A name comes twice.
            ValueError: It is not JSON.
        """
        coding = self.headers.get("content-encoding", "identity").strip().lower()
        if coding != "identity":
            raise ContentRefused("Content-Encoding", coding, "identity")
        return json.loads(await self.body(), object_pairs_hook=_read_object)


def _read_object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        name, value = next(pair for at, pair in enumerate(pairs) if pair[0] in names[:at])
        raise FieldProblem(name[:100], str(value)[:200], "given once: it is in the body before")
    return found
