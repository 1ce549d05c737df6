"""Parts of the OpenAPI document that FastAPI cannot see: bodies, headers and refusals.

HTTP's own framing (Content-Type, Content-Length, Date, Connection) and Authorization, which is a
security scheme there, are left out. Each operation's id is the name of its route's function, which
generated clients use.
"""

import json
from pathlib import Path
from typing import Any, Final

from fastapi import Response
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from wavetrim.service.api.checks import MAX_KEY_CHARACTERS
from wavetrim.service.api.problems import MEDIA_TYPE, list_titles
from wavetrim.service.api.schemas import Problem
from wavetrim.service.api.v2.schemas import MOST_HEAD_BYTES

MEANINGS: Final = {
    "Accept-Ranges": "bytes: a single range can be asked for.",
    "Cache-Control": "private: only the caller itself may keep it.",
    "Content-Digest": "SHA-256 of the file, if it is known (RFC 9530).",
    "Content-Encoding": "gzip or deflate, if Accept-Encoding asks for it.",
    "Content-Range": "Which range this is, or how long the whole is.",
    "ETag": "Strong: a matrix never changes.",
    "Inference-Header-Content-Length": "Bytes of the JSON head before binary data.",
    "Location": "Path of what was made.",
    "Retry-After": "Seconds after which another try is worthwhile.",
    "Server-Timing": "kernel, transfer, gpu, cpu, total and queue, in milliseconds; for a stack, "
    "their sums.",
    "WWW-Authenticate": "How to send the key or token.",
    "Wavetrim-Accuracy": "How exact the sums of the GPU's kernel are, if one has run.",
    "Wavetrim-F": "Rows of C that the CPU was planned to compute; for a stack, the sum.",
    "Wavetrim-F-Actual": "Rows of C that the CPU has computed; for a stack, the sum.",
    "X-Content-Type-Options": "nosniff: browsers do not guess another type.",
    "X-Request-Id": "The request's own X-Request-Id, or one that was made; the log has it, too.",
}
"""Headers of answers."""

PRODUCT_HEADERS: Final = ("Server-Timing", "Wavetrim-F", "Wavetrim-F-Actual", "Wavetrim-Accuracy")
"""Headers that say how a product was computed."""

REFUSAL_HEADERS: Final = {
    401: ("WWW-Authenticate",),
    416: ("Content-Range",),
    429: ("Retry-After",),
    503: ("Retry-After",),
}

_REQUEST_HEADERS: Final[dict[str, dict[str, Any]]] = {
    "X-Request-Id": {
        "description": "An id for the log and the answer: 1 to 64 letters, digits and ._:- ; "
        "another one is replaced."
    },
    "Content-Digest": {
        "description": "SHA-256 of the body (RFC 9530); checked when it is sent.",
        "example": "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:",
    },
    "Idempotency-Key": {
        "description": "A repeated POST with the same key finds what the first one has made.",
        "schema": {"type": "string", "minLength": 1, "maxLength": MAX_KEY_CHARACTERS},
    },
    "If-Match": {"description": "ETags; unless one holds, the answer is 412."},
    "If-None-Match": {"description": "An ETag; while it holds, the answer is 304."},
    "Range": {
        "description": "One range of bytes; for several, or none that is valid, the whole is sent.",
        "example": "bytes=0-1023",
    },
    "If-Range": {"description": "Range counts only if this is the ETag."},
    "Inference-Header-Content-Length": {
        "description": "Bytes of the JSON head before binary data.",
        "schema": {"type": "integer", "minimum": 0, "maximum": MOST_HEAD_BYTES},
    },
    "Content-Encoding": {"description": "How the body is compressed: identity, gzip, deflate."},
    "Accept-Encoding": {"description": "How the answer may be compressed."},
}
"""Headers of requests."""

EVERYWHERE: Final = (400, 401, 403, 422, 429, 503)
"""Statuses with which every call of /v1 and /v2 may be refused."""

_EXAMPLES: Final = Path(__file__).with_name("examples.json")
"""Examples of bodies and answers, by the names of their schemas."""

_FASTAPIS_REFUSAL: Final = "HTTPValidationError"

_REFERRED: Final[dict[str, type[BaseModel]]] = {}
"""Models that `refer` has named, by their names."""

_REFERENCE: Final = "#/components/schemas/{model}"

BINARY: Final = {"schema": {"type": "string", "format": "binary"}}
"""Content that is bytes."""


def list_refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """FastAPI's `responses`: problem documents for these statuses."""
    return {status: describe_status(status) for status in statuses}


def describe_status(status: int) -> dict[str, Any]:
    """One of FastAPI's `responses`: a problem document, of any kind with this status."""
    headers = describe_headers(*REFUSAL_HEADERS.get(status, ()))
    description = f"{'; '.join(list_titles(status))}."
    return {"model": Problem, "description": description, "headers": headers}


def describe_headers(*names: str) -> dict[str, Any]:
    """The `headers` of a response in an OpenAPI document."""
    return {name: {"description": MEANINGS[name], "schema": {"type": "string"}} for name in names}


def describe_request_headers(*names: str) -> list[dict[str, Any]]:
    """The `parameters` of an operation in an OpenAPI document that are headers, all optional."""
    common = {"in": "header", "required": False, "schema": {"type": "string"}}
    return [{"name": name, **common, **_REQUEST_HEADERS[name]} for name in names]


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


def describe_json_body(document: type[BaseModel]) -> dict[str, Any]:
    """FastAPI's `openapi_extra` of an operation that takes a JSON document."""
    return {"requestBody": {"required": True, "content": {"application/json": refer(document)}}}


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
    """Content that is a JSON document of a model. FastAPI does not see that the model is used."""
    _REFERRED[model.__name__] = model
    return {"schema": {"$ref": _REFERENCE.format(model=model.__name__)}}


def name_operation(route: APIRoute) -> str:
    """The id of an operation: its function's name, with a suffix if the path has a version."""
    return f"{route.name}_of_version" if "{version}" in route.path else route.name


def complete_document(document: dict[str, Any]) -> dict[str, Any]:
    """Add to an OpenAPI document what all operations share, and the models that `refer` has named.

    Every refusal gets the form and media type that it has on the wire. FastAPI's own form of a
    refused field is removed, as no answer has it.
    """
    components = document["components"]
    schemas = components["schemas"]
    models = [model for name, model in _REFERRED.items() if name not in schemas]
    _, named = models_json_schema(
        [(model, "validation") for model in models], ref_template=_REFERENCE
    )
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
