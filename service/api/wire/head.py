"""Limits of connections and of a request's head: its request line and its header fields."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from wavetrim.service.errors import FieldProblem, HeadTooLarge, RequestMalformed

MAX_HEAD_BYTES: Final = 2**16
"""The longest head, and the most bytes of framing in a chunked body at a time; chosen."""

MAX_FIELDS: Final = 100
"""The most header fields, and the most fields of a query; chosen."""

VERSIONS: Final = ("1.0", "1.1")
"""Supported versions of HTTP."""

HEAD_SECONDS: Final = 10.0
"""How long a head may take, from its first byte or, on a new connection, from the start; chosen."""

_AUTHORITY_END: Final = re.compile(rb"[/?#]")

LINGERING_CONNECTIONS: Final = 4
"""Connections over the limit that are given time to see their refusal; chosen."""


@dataclass(frozen=True, slots=True)
class WireLimits:
    """Limits of a server's connections.

    Attributes:
        connections: The most that are open at once; None for no limit.
        count_missing: How many fewer may be open now, as descriptors are used otherwise.
        head_seconds: How long a head may take.
        note_refusal: Called with the status of each refusal, and its reason.
    """

    connections: int | None = None
    count_missing: Callable[[], int] = lambda: 0
    head_seconds: float = HEAD_SECONDS
    note_refusal: Callable[[str, object], None] = field(default=lambda _status, _reason: None)


def check_head(
    version: str, url: bytes, headers: list[tuple[bytes, bytes]], *, read_bytes: int
) -> None:
    """Make sure that a complete head is within its limits; the parser accepts more.

    Args:
        version: Its version of HTTP.
        url: The request's target.
        headers: Its header fields.
        read_bytes: The head's length, or more, if more was read with it.

    Raises:
        RequestMalformed: The version is not supported.
        HeadTooLarge: It is too long, or has too many fields.
        FieldProblem: The query has too many fields.
    """
    if version not in VERSIONS:
        raise RequestMalformed("HTTP version", version, " or ".join(VERSIONS))
    if read_bytes > MAX_HEAD_BYTES:
        read_bytes = len(url) + sum(len(name) + len(value) + 4 for name, value in headers)
    check_size(read_bytes, len(headers))
    count = url.count(b"&") + 1
    if count > MAX_FIELDS:
        raise FieldProblem("query fields", count, f"at most {MAX_FIELDS}")


def check_size(length_bytes: int, field_count: int) -> None:
    """Make sure that a head, or the part of it that has come, is not too large.

    Raises:
        HeadTooLarge: It is.
    """
    if field_count > MAX_FIELDS:
        raise HeadTooLarge("header fields", field_count, f"at most {MAX_FIELDS}")
    if length_bytes > MAX_HEAD_BYTES:
        limit = f"at most {MAX_HEAD_BYTES} bytes"
        raise HeadTooLarge("request line and headers", f"{length_bytes} bytes", limit)


def take_authority(url: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    """If the target is a whole URL, replace the Host header by the URL's host.

    The URL's host is the one that counts (RFC 9112, section 3.2.2), so it must be checked.

    Args:
        url: The request's target.
        headers: Its header fields, which are changed.
    """
    _, absolute, rest = url.partition(b"://")
    if not absolute:
        return
    authority = _AUTHORITY_END.split(rest, maxsplit=1)[0]
    headers[:] = [(name, authority if name == b"host" else value) for name, value in headers]


def check_codings(codings: list[bytes]) -> None:
    """Make sure that chunked is a body's only transfer coding.

    The parser accepts every list that ends with chunked, and would leave a body compressed.

    Raises:
        RequestMalformed: There is another transfer coding.
    """
    if [coding.lower() for coding in codings] != [b"chunked"]:
        shown = b", ".join(codings).decode("latin-1")
        raise RequestMalformed("Transfer-Encoding", shown, "chunked, or left out")
