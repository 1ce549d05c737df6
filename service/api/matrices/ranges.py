"""Byte ranges of RFC 9110, section 14."""

import re
from typing import Final

from wavetrim.service.errors import RangeNotSatisfiable

_SINGLE: Final = re.compile(r"bytes=[ \t]*(\d{0,18})-(\d{0,18})[ \t]*", re.ASCII | re.IGNORECASE)


def parse_range(text: str, size_bytes: int) -> tuple[int, int] | None:
    """Reads a Range field.

    Args:
        text: The field.
        size_bytes: Length of the file, at least 1.

    Returns:
        First byte and the one after the last, or None to send the whole file: for other units,
        several ranges and malformed fields, which a server may ignore.

    Raises:
        RangeNotSatisfiable: The range begins after the end of the file.
    """
    match = _SINGLE.fullmatch(text.strip())
    if match is None:
        return None
    first, last = match.groups()
    if not first:
        return _parse_suffix(text, last, size_bytes)
    begin = int(first)
    if last and int(last) < begin:
        return None
    if begin >= size_bytes:
        raise RangeNotSatisfiable(text, size_bytes)
    return begin, min(int(last) + 1, size_bytes) if last else size_bytes


def _parse_suffix(text: str, length: str, size_bytes: int) -> tuple[int, int] | None:
    if not length:
        return None
    if int(length) == 0:
        raise RangeNotSatisfiable(text, size_bytes)
    return max(size_bytes - int(length), 0), size_bytes
