"""Reads the fields that callers send: those of queries, and of JSON documents.

A document is read within bounds, and no name may be there twice in an object. What it costs is its
structure, not its bytes: eight megabytes may be 400,000 numbers, which take 20 ms, or two million
lists of one number, which take a second. So marks are counted first, at some gigabytes a second. Of
two equal names one value would count, and nobody would know which.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, TypeVar, get_origin

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from wavetrim.service.api.checks import check_query
from wavetrim.service.errors import FieldProblem

Model = TypeVar("Model", bound=BaseModel)
Result = TypeVar("Result")

_BOUNDS: Final = (
    (b",", 2**19, "commas"),
    (b"[", 2**16, "lists; send elements flat, or as binary data"),
    (b"{", 2**9, "objects"),
    (b'"', 2**11, "quotation marks"),
    (b"\\", 2**11, "backslashes"),
)
"""The most of each mark; chosen, so that no step of the reading takes longer than 20 ms."""

_SHOWN_BYTES: Final = 40
"""Bytes that a refusal shows of a document that is no JSON; chosen."""

_VALUE: Final = re.compile(rb"\s*:\s*([^\s,{}\[\]]*)")


@lru_cache(maxsize=256)
def read_query(model: type[Model], query_string: bytes) -> Model:
    """The fields of a query; they must not be changed.

    Raises:
        FieldProblem: As `check_query`.
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


def read_json(content: bytes, *, times: int = 1) -> Any:
    """The document in some bytes.

    Args:
        content: The bytes.
        times: How many times as many marks it may have, as a list of documents.

    Raises:
        RequestValidationError: It is not JSON.
        FieldProblem: It has too many values, or a name twice in an object.
    """
    for mark, least, name in _BOUNDS:
        most = times * least
        if len(content) > most and _has_more(content, mark, most):
            count = content.count(mark)
            raise FieldProblem("body", f"{count} of {mark.decode()}", f"at most {most} {name}")
    try:
        document = from_json(content, allow_inf_nan=True)
    except ValueError as error:
        text = content[:_SHOWN_BYTES].decode("latin-1")
        broken = {"type": "json_invalid", "loc": ("body",), "msg": str(error), "input": text}
        raise RequestValidationError([broken]) from error
    _check_names(content)
    return document


def _has_more(content: bytes, mark: bytes, most: int) -> bool:
    """Whether there are more marks than that: where they are rare, much faster than counting."""
    if mark == b",":
        return content.count(mark) > most
    position = -1
    for _ in range(most + 1):
        position = content.find(mark, position + 1)
        if position < 0:
            return False
    return True


def _check_names(content: bytes) -> None:
    """Refuse a name that comes twice in an object of a document, which is known to be JSON."""
    # Afterwards quotation marks are the ends of texts: each second part is one.
    if b"\\" in content:
        content = content.replace(rb"\\", rb"\u005c").replace(rb"\"", rb"\u0022")
    parts = _split(content, b'"')
    objects: list[set[str]] = []
    for at in range(0, len(parts), 2):
        outside = parts[at]
        if at and (found := _VALUE.match(outside)):
            name = from_json(b'"%b"' % parts[at - 1])
            if name in objects[-1]:
                value = found[1] or b"".join(parts[at + 1 : at + 2])
                shown = value[:200].decode("utf-8", "replace")
                raise FieldProblem(name[:100], shown, "given once: it is in the body before")
            objects[-1].add(name)
        for number, piece in enumerate(_split(outside, b"{")):
            if number:
                objects.append(set())
            if b"}" in piece:
                del objects[len(objects) - piece.count(b"}") :]


def _split(content: bytes, mark: bytes) -> list[bytes]:
    """As `bytes.split`, and where marks are rare ten times as fast."""
    parts, begin = [], 0
    while (end := content.find(mark, begin)) >= 0:
        parts.append(content[begin:end])
        begin = end + 1
    return [*parts, content[begin:]]
