"""Query check: unknown fields are refused, and repeated ones: they would be ignored."""

from collections.abc import Collection, Iterator
from typing import Any
from urllib.parse import parse_qsl

from fastapi import Request
from fastapi.dependencies.models import Dependant
from pydantic import BaseModel

from wavetrim.service.api.v2.errors import is_protocols
from wavetrim.service.errors import QueryFieldRepeated, QueryFieldUnknown


async def refuse_unknown(request: Request) -> None:
    """FastAPI's dependency of every call; what clients of /v2 add to it is ignored.

    Raises:
        QueryFieldUnknown: The query has a field that the call does not know.
        QueryFieldRepeated: It has a field twice.
    """
    query_string: bytes = request.scope["query_string"]
    if query_string and not is_protocols(request.scope["path"]):
        check_query(query_string, tuple(_find_known(request.scope["route"].dependant)))


def check_query(query_string: bytes, known: Collection[str]) -> None:
    """Make sure that a call knows all fields of its query, and finds each once.

    Raises:
        QueryFieldUnknown: One is unknown.
        QueryFieldRepeated: One is there twice.
    """
    seen: set[str] = set()
    for name, value in parse_qsl(query_string.decode("latin-1"), keep_blank_values=True):
        if name not in known:
            raise QueryFieldUnknown(name, value, known)
        if name in seen:
            raise QueryFieldRepeated(name, value)
        seen.add(name)


def list_fields(model: type[BaseModel]) -> tuple[str, ...]:
    """The query fields of a model, as they are sent."""
    return tuple(field.alias or name for name, field in model.model_fields.items())


def _find_known(dependant: Dependant) -> Iterator[str]:
    """The query fields of a route and of its dependencies."""
    for field in dependant.query_params:
        kind: Any = field.field_info.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from list_fields(kind)
        else:
            yield field.alias
    for needed in dependant.dependencies:
        yield from _find_known(needed)
