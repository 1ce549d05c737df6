"""The opaque mark of a place in the list of jobs."""

import base64
import binascii
import re

from wavetrim.service.jobs.errors import CursorUnknown


def encode_cursor(sequence: int) -> str:
    """The cursor of the jobs that are older than the one with this sequence number."""
    return base64.urlsafe_b64encode(b"before:%d" % sequence).decode().rstrip("=")


def decode_cursor(cursor: str) -> int:
    """The sequence number that `encode_cursor` was given.

    Raises:
        CursorUnknown: The text was not made by `encode_cursor`.
    """
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise CursorUnknown("cursor", cursor, "a next_cursor of an earlier page") from error
    match = re.fullmatch(rb"before:(\d{1,18})", text)
    if match is None:
        raise CursorUnknown("cursor", cursor, "a next_cursor of an earlier page")
    return int(match[1])
