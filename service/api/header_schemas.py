"""The headers of requests and answers, as the OpenAPI document describes them.

HTTP's own framing (Content-Type, Content-Length, Date, Connection) and Authorization, which is a
security scheme there, are left out.
"""

from typing import Any, Final

from wavetrim.service.api.admission.idempotency import MAX_KEY_CHARACTERS

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
        "schema": {"type": "integer", "minimum": 0},
    },
    "Content-Encoding": {"description": "How the body is compressed: identity, gzip, deflate."},
    "Accept-Encoding": {"description": "How the answer may be compressed."},
}
"""Headers of requests."""


def describe_headers(*names: str) -> dict[str, Any]:
    """The `headers` of a response in an OpenAPI document."""
    return {name: {"description": MEANINGS[name], "schema": {"type": "string"}} for name in names}


def describe_request_headers(*names: str) -> list[dict[str, Any]]:
    """The `parameters` of an operation in an OpenAPI document that are headers, all optional."""
    common = {"in": "header", "required": False, "schema": {"type": "string"}}
    return [{"name": name, **common, **_REQUEST_HEADERS[name]} for name in names]
