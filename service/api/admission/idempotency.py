"""The Idempotency-Key header: a POST that is repeated with the same key does nothing twice."""

import re
from typing import Final

from wavetrim.service.errors import IdempotencyKeyRefused

MAX_KEY_CHARACTERS: Final = 255

_KEY: Final = re.compile(rf"[\x20-\x7e]{{1,{MAX_KEY_CHARACTERS}}}")


def check_key(key: str | None) -> str | None:
    """The key, unchanged; None if there is none.

    Raises:
        IdempotencyKeyRefused: It is too long, or not printable ASCII.
    """
    if key is None or _KEY.fullmatch(key):
        return key
    limit = f"1 to {MAX_KEY_CHARACTERS} printable ASCII characters"
    raise IdempotencyKeyRefused("Idempotency-Key", key, limit)
