"""A request to the service, and its body."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .answer import Answer

Progress = Callable[[int, int], None]
"""Receives the bytes sent, and the bytes in all."""


@dataclass(frozen=True, slots=True)
class Body:
    """Bytes to be sent.

    Attributes:
        size_bytes: How many.
        read_pieces: Reads them from their start, in pieces; called again if they are sent again.
    """

    size_bytes: int
    read_pieces: Callable[[], Iterator[bytes | memoryview]]


@dataclass(frozen=True, slots=True)
class Request:
    """A request to the service.

    Attributes:
        method: HTTP method.
        path: Path of the route.
        query: Query parameters; those that are None are left out.
        headers: Headers besides those of every request.
        body: The body; None for none.
        on_progress: Called after each part of the body that was sent.
        repeatable: Whether it may be sent again after its connection broke, because it changes
            nothing, or because the service recognizes a repetition.
        before_repeat: Called before it is sent again after its connection broke: what was asked
            first may still be done.
        undo: Takes back what the service has done if the caller is interrupted after the whole
            request was sent; receives the answer, of which some may have been read.
    """

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Body | None = None
    on_progress: Progress | None = None
    repeatable: bool = False
    before_repeat: Callable[[], None] | None = None
    undo: Callable[[Answer], None] | None = None
