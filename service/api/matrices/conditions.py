"""What a request asks of a matrix that is sent: conditions and a range (RFC 9110, 13.1 and 14).

Conditions are on its ETag: If-Match and If-None-Match.
"""

import re
from typing import Final

from starlette.datastructures import Headers

from wavetrim.service.errors import ConditionFailed, RangeNotSatisfiable

_SINGLE: Final = re.compile(r"bytes=[ \t]*(\d{0,18})-(\d{0,18})[ \t]*", re.ASCII | re.IGNORECASE)


def check_if_match(asked: Headers, etag: str) -> None:
    """Makes sure that If-Match, if it was sent, has the ETag of a matrix that is there.

    The comparison is strong: a weak tag never matches.

    Raises:
        ConditionFailed: It has other tags only.
    """
    tags = _list_tags(asked, "if-match")
    if tags and tags != ["*"] and etag not in tags:
        sent = ", ".join(asked.getlist("if-match"))
        raise ConditionFailed("If-Match", sent[:200], f"the ETag {etag}, or *")


def knows(asked: Headers, etag: str) -> bool:
    """Whether If-None-Match has the ETag; the comparison is weak."""
    tags = [tag.removeprefix("W/") for tag in _list_tags(asked, "if-none-match")]
    return tags == ["*"] or etag in tags


def _list_tags(asked: Headers, name: str) -> list[str]:
    """The tags of all fields of a name; none if there is no such field.

    A tag may have commas, and is then cut. No part is mistaken for an ETag of a matrix: between
    two quotes of one tag there is no third, and `*` counts alone only.
    """
    return [tag.strip() for field in asked.getlist(name) for tag in field.split(",")]


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
