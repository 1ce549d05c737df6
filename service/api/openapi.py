"""What the API's description says of bodies and refusals that FastAPI cannot see."""

from typing import Any, Final

from pydantic import BaseModel

from wavetrim.service.api.problems import MEDIA_TYPE
from wavetrim.service.api.schemas import Problem
from wavetrim.service.api.wire.reader import MEDIA_TYPES

_REFUSALS: Final = {
    400: "Malformed: a .npy header, a length, a digest, JSON or the Host header.",
    401: "The API key or token is missing or wrong.",
    403: "Called under a foreign name, or with a key that is not for such calls.",
    404: "There is none with this id, or it is another caller's.",
    408: "The body stalled, or came too slowly.",
    409: "In use, finished or cancelled.",
    413: "Larger than the service takes.",
    415: "Media type, encoding or element type not taken.",
    416: "The range begins behind the end.",
    422: "A field that cannot be taken, or shapes that do not fit.",
    429: "The queue is full, or the key's quota used up; see Retry-After.",
    500: "The computation failed.",
    503: "Too much at once, the service is stopping, or what it needs is away; see Retry-After.",
    504: "The job ran out of time.",
    507: "There is no room for another matrix, or the key's quota has none.",
}

_FASTAPIS_REFUSAL: Final = "HTTPValidationError"

_BINARY: Final = {"schema": {"type": "string", "format": "binary"}}


def list_refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """FastAPI's `responses`: problem documents for these statuses, and those of every /v1 call."""
    return {status: describe_refusal(status) for status in sorted({*statuses, 400, 401, 403, 503})}


def describe_refusal(status: int) -> dict[str, Any]:
    """One of FastAPI's `responses`: a problem document."""
    return {"model": Problem, "description": _REFUSALS[status]}


def describe_npy_body(description: str, document: type[BaseModel] | None = None) -> dict[str, Any]:
    """FastAPI's `openapi_extra` of an operation that takes .npy files, or a JSON document."""
    description += " Elements of two raw bytes are bfloat16: so `numpy.save` writes them."
    content: dict[str, Any] = dict.fromkeys(MEDIA_TYPES, _BINARY)
    if document is not None:
        content["application/json"] = {"schema": inline_schema(document)}
    return {"requestBody": {"required": True, "description": description, "content": content}}


def describe_npy_answer(
    description: str, document: type[BaseModel] | None = None, **headers: str
) -> dict[str, Any]:
    """One of FastAPI's `responses`: a .npy file or a JSON document, headers with their meaning."""
    content: dict[str, Any] = {"application/x-npy": _BINARY}
    if document is not None:
        content["application/json"] = {"schema": inline_schema(document)}
    return {
        "description": description,
        "content": content,
        "headers": {
            name.replace("_", "-"): {"description": meaning, "schema": {"type": "string"}}
            for name, meaning in headers.items()
        },
    }


def inline_schema(model: type[BaseModel]) -> dict[str, Any]:
    """A model's JSON schema, in which every model that it names stands where it is named."""
    schema = model.model_json_schema()
    models = schema.pop("$defs", {})

    def resolve(part: Any) -> Any:
        if isinstance(part, list):
            return [resolve(one) for one in part]
        if not isinstance(part, dict):
            return part
        named = models.get(str(part.get("$ref", "")).rpartition("/")[2], {})
        return {key: resolve(value) for key, value in {**named, **part}.items() if key != "$ref"}

    resolved: dict[str, Any] = resolve(schema)
    return resolved


def use_problem_type(document: dict[str, Any]) -> dict[str, Any]:
    """Gives every refusal of an OpenAPI document the form and media type that it has on the wire.

    FastAPI's own form of a refused field is left out: no answer has it.
    """
    for path in document["paths"].values():
        for operation in path.values():
            responses = operation["responses"]
            if _FASTAPIS_REFUSAL in str(responses.get("422")):
                del responses["422"]  # none of the operation's fields can be refused
            for status, response in responses.items():
                content = response.get("content", {})
                if status >= "400" and "application/json" in content:
                    content[MEDIA_TYPE] = content.pop("application/json")
    for name in (_FASTAPIS_REFUSAL, "ValidationError"):
        document["components"]["schemas"].pop(name, None)
    return document
