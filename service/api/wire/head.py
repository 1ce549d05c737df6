"""Limits of connections and of a request's head: its request line and its header fields."""

from dataclasses import dataclass
from typing import Final

from wavetrim.service.errors import Crowded, HeadTooLarge, UploadStalled

MAX_HEAD_BYTES: Final = 2**16
"""The longest head, and the most of a chunked body that is no part of its content at a time."""

MAX_FIELDS: Final = 100
"""The most header fields."""

HEAD_SECONDS: Final = 10.0
"""How long a head may take, from its first byte or, on a new connection, from the start."""

LINGERING_CONNECTIONS: Final = 4
"""So many connections over the limit are given time to see that they are refused."""


@dataclass(frozen=True, slots=True)
class WireLimits:
    """What one server takes from its connections.

    Attributes:
        connections: The most that are open at once; None for as many as come.
        head_seconds: How long a head may take.
    """

    connections: int | None = None
    head_seconds: float = HEAD_SECONDS


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


def describe_late(received_bytes: int, limits: WireLimits) -> UploadStalled:
    """The refusal of a head that takes too long."""
    value = f"{received_bytes} bytes after {limits.head_seconds:g} s"
    limit = f"complete within {limits.head_seconds:g} s of its first byte"
    return UploadStalled("request line and headers", value, limit)


def describe_crowd(count: int, most: int) -> Crowded:
    """The refusal of a connection over the limit."""
    return Crowded("connections", count, f"at most {most} (max_connections)")
