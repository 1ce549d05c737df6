"""Routes that carry bodies: they receive or send the bytes themselves, and FastAPI describes them.

FastAPI would read a body before its route is called, and its routing costs a small product 30 µs.
So `checks.Admission` calls these routes; the OpenAPI document has them like all others.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeVar, get_origin
from urllib.parse import parse_qsl

from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError

from wavetrim.service.api.admission.call import Call

Model = TypeVar("Model", bound=BaseModel)


class BodyRoute(APIRoute):
    """A route whose function answers by itself, with the bytes of its `Call`.

    The function takes the call, the parameters of the path, and the model of the query if there is
    one. It may raise `REFUSALS` until the answer has begun. It reads headers and bodies from the
    call, so these are described by `openapi_extra`.

    Attributes:
        known: The fields of its query, and whether each may be there more than once.
    """

    def __init__(self, path: str, endpoint: Any, **described: Any) -> None:
        super().__init__(path, endpoint, **described)
        self.known = dict(list_known(self.dependant))
        self._queries: dict[str, Any] = {
            field.name: field.field_info.annotation for field in self.dependant.query_params
        }

    def find(self, method: str, path: str) -> dict[str, str] | None:
        """The parameters in a path; None if the route has another path or method."""
        if method not in (self.methods or ()):
            return None
        found = self.path_regex.match(path)
        return None if found is None else found.groupdict()

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
        for name, model in self._queries.items():
            fields[name] = read_query(model, call.scope["query_string"])
        await self.endpoint(call, **fields)


def list_known(dependant: Dependant) -> Iterator[tuple[str, bool]]:
    """The query fields of a route of FastAPI's and of its dependencies; whether each is a list."""
    for field in dependant.query_params:
        kind: Any = field.field_info.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            for name, one in kind.model_fields.items():
                yield one.alias or name, False
        else:
            yield field.alias, get_origin(kind) is list
    for needed in dependant.dependencies:
        yield from list_known(needed)


@lru_cache(maxsize=256)
def read_query(model: type[Model], query_string: bytes) -> Model:
    """The fields of a query; they must not be changed.

    Raises:
        RequestValidationError: A field is not valid.
    """
    fields = dict(parse_qsl(query_string.decode("latin-1"), keep_blank_values=True))
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise refuse(error, "query") from error


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
