"""Limits of connections and of a request's head: its request line and its header fields."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from wavetrim.service.errors import Crowded, HeadTooLarge, RequestMalformed, UploadStalled

MAX_HEAD_BYTES: Final = 2**16
"""The longest head, and the most of a chunked body that is no part of its content at a time."""

MAX_FIELDS: Final = 100
"""The most header fields."""

VERSIONS: Final = ("1.0", "1.1")
"""Versions of HTTP that are spoken."""

HEAD_SECONDS: Final = 10.0
"""How long a head may take, from its first byte or, on a new connection, from the start."""

_AUTHORITY_END: Final = re.compile(rb"[/?#]")

LINGERING_CONNECTIONS: Final = 4
"""So many connections over the limit are given time to see that they are refused."""


@dataclass(frozen=True, slots=True)
class WireLimits:
    """What one server takes from its connections.

    Attributes:
        connections: The most that are open at once; None for as many as come.
        head_seconds: How long a head may take.
        note_refusal: Called with the status of each refusal, and its reason.
    """

    connections: int | None = None
    head_seconds: float = HEAD_SECONDS
    note_refusal: Callable[[str, object], None] = field(default=lambda _status, _reason: None)


def check_fields(count: int) -> None:
    """Make sure that a head has not too many fields.

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
    """The length of a head's parts and what stands between them, to within some bytes."""
    return len(url) + sum(len(name) + len(value) + 4 for name, value in headers)


def take_authority(url: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    """Put the host of a target that is a whole URL in the Host header's place.

    The URL's host is the one that counts (RFC 9112, section 3.2.2), so it is the one to be checked.

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
    """Make sure that a head has a version of HTTP that is spoken: the parser lets more pass.

    Raises:
        RequestMalformed: It has not.
    """
    if version not in VERSIONS:
        raise RequestMalformed("HTTP version", version, " or ".join(VERSIONS))


def check_codings(codings: list[bytes]) -> None:
    """Make sure that a body comes in chunks and in no other form, however often that is said.

    The parser takes every list that ends with chunked, and so would leave a body compressed.

    Raises:
        RequestMalformed: There is another transfer coding.
    """
    if [coding.lower() for coding in codings] != [b"chunked"]:
        shown = b", ".join(codings).decode("latin-1")
        raise RequestMalformed("Transfer-Encoding", shown, "chunked, or left out")


def describe_malformed() -> RequestMalformed:
    """The refusal of bytes that the parser does not take for a request."""
    return RequestMalformed("request", "malformed", "a request by RFC 9112 (HTTP/1.1)")


def describe_late(received_bytes: int, limits: WireLimits) -> UploadStalled:
    """The refusal of a head that takes too long."""
    value = f"{received_bytes} bytes after {limits.head_seconds:g} s"
    limit = f"complete within {limits.head_seconds:g} s of its first byte"
    return UploadStalled("request line and headers", value, limit)


def describe_crowd(count: int, most: int) -> Crowded:
    """The refusal of a connection over the limit."""
    return Crowded("connections", count, f"at most {most} (max_connections)")
