"""The Idempotency-Key header: a POST that is repeated with the same key does nothing twice."""

import re
from typing import Annotated, Final

from fastapi import Header
from pydantic.json_schema import SkipJsonSchema

from wavetrim.service.errors import IdempotencyKeyRefused

MAX_KEY_CHARACTERS: Final = 255

_KEY: Final = re.compile(rf"[\x20-\x7e]{{1,{MAX_KEY_CHARACTERS}}}")

IdempotencyKey = Annotated[
    str | SkipJsonSchema[None],
    Header(
        alias="idempotency-key",
        description="A repeated POST with the same key finds what the first one has made.",
        json_schema_extra={"minLength": 1, "maxLength": MAX_KEY_CHARACTERS},
    ),
]
"""The header in the OpenAPI document; `check_key` checks it."""


def check_key(key: str | None) -> str | None:
    """The key, unchanged; None if there is none.

    Raises:
        IdempotencyKeyRefused: It is too long, or not printable ASCII.
    """
    if key is None or _KEY.fullmatch(key):
        return key
    limit = f"1 to {MAX_KEY_CHARACTERS} printable ASCII characters"
    raise IdempotencyKeyRefused("Idempotency-Key", key, limit)
