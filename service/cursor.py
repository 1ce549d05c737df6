"""Cursors: opaque text for the place in a list where a page ends and the next one begins."""

import base64
import binascii
import re

from wavetrim.service.errors import CursorUnknown


def encode_mark(mark: str) -> str:
    """The cursor of a mark, which is ASCII text."""
    return base64.urlsafe_b64encode(mark.encode()).decode().rstrip("=")


def decode_mark(cursor: str, pattern: str) -> re.Match[str]:
    """The mark that `encode_mark` was given.

    Args:
        cursor: The cursor.
        pattern: What the whole mark must match.

    Raises:
        CursorUnknown: No such mark was encoded.
    """
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        match = re.fullmatch(pattern, raw.decode("ascii"), re.ASCII)
    except (binascii.Error, ValueError):
        match = None
    if match is None:
        raise CursorUnknown("cursor", cursor, "a next_cursor of an earlier page")
    return match
