"""Limits of connections and of a request's head: its request line and its header fields."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from wavetrim.service.errors import (
    Crowded,
    FieldProblem,
    HeadTooLarge,
    RequestMalformed,
    UploadStalled,
)

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


def check_query(url: bytes) -> None:
    """Make sure that a query does not have too many fields.

    Raises:
        FieldProblem: It has.
    """
    count = url.count(b"&") + 1
    if count > MAX_FIELDS:
        raise FieldProblem("query fields", count, f"at most {MAX_FIELDS}")


def check_fields(count: int) -> None:
    """Make sure that a head does not have too many fields.

    Raises:
        HeadTooLarge: It has.
    """
    if count > MAX_FIELDS:
        raise HeadTooLarge("header fields", count, f"at most {MAX_FIELDS}")


def check_length(length_bytes: int) -> None:
    """Make sure that a head is not too long.

    Raises:
        HeadTooLarge: It is.
    """
    if length_bytes > MAX_HEAD_BYTES:
        limit = f"at most {MAX_HEAD_BYTES} bytes"
        raise HeadTooLarge("request line and headers", f"{length_bytes} bytes", limit)


def measure_head(url: bytes, headers: list[tuple[bytes, bytes]]) -> int:
    """The length of a head, to within some bytes."""
    return len(url) + sum(len(name) + len(value) + 4 for name, value in headers)


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


def check_version(version: str) -> None:
    """Make sure that a head has a supported version of HTTP; the parser accepts more.

    Raises:
        RequestMalformed: It does not.
    """
    if version not in VERSIONS:
        raise RequestMalformed("HTTP version", version, " or ".join(VERSIONS))


def check_codings(codings: list[bytes]) -> None:
    """Make sure that chunked is a body's only transfer coding.

    The parser accepts every list that ends with chunked, and would leave a body compressed.

    Raises:
        RequestMalformed: There is another transfer coding.
    """
    if [coding.lower() for coding in codings] != [b"chunked"]:
        shown = b", ".join(codings).decode("latin-1")
        raise RequestMalformed("Transfer-Encoding", shown, "chunked, or left out")


def describe_malformed() -> RequestMalformed:
    """The refusal of bytes that the parser cannot read as a request."""
    return RequestMalformed("request", "malformed", "a request by RFC 9112 (HTTP/1.1)")


def describe_late(received_bytes: int, limits: WireLimits) -> UploadStalled:
    """The refusal of a head that takes too long."""
    value = f"{received_bytes} bytes after {limits.head_seconds:g} s"
    limit = f"complete within {limits.head_seconds:g} s of its first byte"
    return UploadStalled("request line and headers", value, limit)


def describe_crowd(count: int, most: int) -> Crowded:
    """The refusal of a connection over the limit."""
    return Crowded("connections", count, f"at most {most} (max_connections)")
