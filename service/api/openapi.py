"""Parts of the OpenAPI document that FastAPI cannot see: bodies, headers and refusals.

Each operation's id is the name of its route's function, which generated clients use.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from fastapi import Response
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from wavetrim.service.api.header_schemas import (
    REFUSAL_HEADERS,
    describe_headers,
    describe_request_headers,
)
from wavetrim.service.api.problems import MEDIA_TYPE
from wavetrim.service.api.schemas import Problem

_REFUSALS: Final = {
    400: "Malformed: a .npy header, a length, a digest, JSON or the Host header.",
    401: "The API key or token is missing or wrong.",
    403: "Called under a foreign name, or with a key without the scope for this call.",
    404: "There is none with this id, or it is another caller's.",
    408: "The body stalled, or came too slowly.",
    409: "In use, finished or cancelled.",
    412: "If-Match has other ETags only.",
    413: "Larger than the service takes.",
    415: "Media type, encoding or element type not supported.",
    416: "The range begins after the end.",
    422: "A field that is unknown or not valid, or shapes that do not fit.",
    429: "The queue is full, or the key's quota used up; see Retry-After.",
    500: "The computation failed.",
    503: "Too many at once, the service is stopping, or it lacks something; see Retry-After.",
    504: "The job ran out of time.",
    507: "There is no room for another matrix, or the key's quota has none.",
}

_EVERYWHERE: Final = (400, 401, 403, 422, 429, 503)
"""Statuses with which every call of /v1 and /v2 may be refused."""

_EXAMPLES: Final = Path(__file__).with_name("examples.json")
"""Examples of bodies and answers, by the names of their schemas."""

_FASTAPIS_REFUSAL: Final = "HTTPValidationError"

_REFERENCE: Final = "#/components/schemas/{model}"

BINARY: Final = {"schema": {"type": "string", "format": "binary"}}
"""Content that is bytes."""


def list_refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """FastAPI's `responses`: problem documents for these statuses, and those of every call."""
    return {status: describe_refusal(status) for status in sorted({*statuses, *_EVERYWHERE})}


def describe_refusal(status: int) -> dict[str, Any]:
    """One of FastAPI's `responses`: a problem document."""
    headers = describe_headers(*REFUSAL_HEADERS.get(status, ()))
    return {"model": Problem, "description": _REFUSALS[status], "headers": headers}


def describe_npy_body(
    description: str, *headers: str, document: type[BaseModel] | None = None
) -> dict[str, Any]:
    """FastAPI's `openapi_extra` of an operation that takes .npy files, or a JSON document.

    Only one of the accepted media types is named: generators of clients know that one.
    """
    description += " Elements of two raw bytes are bfloat16, as `numpy.save` writes them."
    content: dict[str, Any] = {"application/octet-stream": BINARY}
    if document is not None:
        content["application/json"] = refer(document)
    description += " As application/octet-stream or application/x-npy."
    body = {"required": True, "description": description, "content": content}
    return {"requestBody": body, "parameters": describe_request_headers(*headers)}


def describe_npy_answer(
    description: str, *headers: str, document: type[BaseModel] | None = None
) -> dict[str, Any]:
    """One of FastAPI's `responses`: a .npy file or a JSON document, with these headers."""
    content: dict[str, Any] = {"application/x-npy": BINARY, "application/octet-stream": BINARY}
    if document is not None:
        content["application/json"] = refer(document)
    return {
        "description": description,
        "content": content,
        "headers": describe_headers(*headers),
    }


def describe_download() -> dict[str, Any]:
    """What FastAPI's decorators take for a stored .npy file: whole, a range, or known already."""
    always = ("ETag", "Accept-Ranges", "Cache-Control")
    asked = describe_request_headers("If-Match", "If-None-Match", "Range", "If-Range")
    known = {"description": "The caller has it already.", "headers": describe_headers(*always)}
    return {
        "response_class": Response,
        "responses": {
            200: describe_npy_answer("The .npy file.", *always, "Content-Digest"),
            206: describe_npy_answer("The range that was asked for.", *always, "Content-Range"),
            304: known,
            **list_refusals(404, 409, 412, 416),
        },
        "openapi_extra": {"parameters": asked},
    }


def refer(model: type[BaseModel]) -> dict[str, Any]:
    """Content that is a JSON document of a model, which `complete_document` must be given."""
    return {"schema": {"$ref": _REFERENCE.format(model=model.__name__)}}


def name_operation(route: APIRoute) -> str:
    """The id of an operation: its function's name, with a suffix if the path has a version."""
    return f"{route.name}_of_version" if "{version}" in route.path else route.name


def complete_document(
    document: dict[str, Any], models: Iterable[type[BaseModel]]
) -> dict[str, Any]:
    """Add to an OpenAPI document what all operations share, and the models that `refer` names.

    Every refusal gets the form and media type that it has on the wire. FastAPI's own form of a
    refused field is removed, as no answer has it.
    """
    components = document["components"]
    _, named = models_json_schema(
        [(model, "validation") for model in models], ref_template=_REFERENCE
    )
    schemas = components["schemas"]
    schemas.update(named["$defs"])
    for name, examples in json.loads(_EXAMPLES.read_text(encoding="utf-8")).items():
        schemas[name]["examples"] = examples
    # Routes of events come first, as their paths would be ids otherwise; readers want jobs first.
    paths = sorted(document["paths"].items(), key=lambda path: path[0].endswith("/events"))
    document["paths"] = dict(paths)
    for _, path in paths:
        for operation in path.values():
            operation.setdefault("parameters", []).extend(describe_request_headers("X-Request-Id"))
            responses = operation["responses"]
            if _FASTAPIS_REFUSAL in str(responses.get("422")):
                del responses["422"]  # none of the operation's fields can be refused
            for status, response in responses.items():
                common = describe_headers("X-Content-Type-Options", "X-Request-Id")
                response["headers"] = response.get("headers", {}) | common
                content = response.get("content", {})
                if status >= "400" and "application/json" in content:
                    content[MEDIA_TYPE] = content.pop("application/json")
    for name in (_FASTAPIS_REFUSAL, "ValidationError"):
        schemas.pop(name, None)
    return document
