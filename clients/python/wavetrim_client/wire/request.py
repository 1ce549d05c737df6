"""A call to the service, and its answer."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

Progress = Callable[[int, int], None]
"""Receives the bytes that were sent, and how many there are."""


class Body(Protocol):
    """Bytes to be sent, of a known length, read piece by piece as often as they are sent."""

    @property
    def waits(self) -> bool:
        """Whether to read a piece is to wait for a disk."""

    @property
    def size_bytes(self) -> int:
        """Length of the whole body."""

    def read_pieces(self) -> Iterator[bytes | memoryview]:
        """Begin a new reading of the body."""


class Answer(Protocol):
    """An answer whose body is still to be received.

    Attributes:
        status: HTTP status.
        headers: By their names in lower case.
        length: Bytes of the body; None where the service does not say.
    """

    status: int
    headers: Mapping[str, str]
    length: int | None

    async def receive_into(self, view: memoryview) -> int:
        """Receive some of the body into memory; returns how many bytes, 0 at its end."""

    async def read(self) -> bytes:
        """All that is left of the body."""


@dataclass(frozen=True, slots=True)
class Request:
    """A call to the service.

    Attributes:
        method: HTTP method.
        path: Path of the route.
        query: Query parameters; those that are None are left out.
        headers: Headers besides those of every call.
        body: What is sent.
        on_progress: Told of each part of the body that was sent.
        repeatable: Whether it may be sent again after its connection has broken: because it
            changes nothing, or because the service knows it again.
        undo: Receives the answer when the caller was interrupted after all was sent, to take back
            what the service has done.
    """

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Body | None = None
    on_progress: Progress | None = None
    repeatable: bool = False
    undo: Callable[[Answer], Awaitable[None]] | None = None
