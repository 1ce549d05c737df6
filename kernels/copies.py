"""Copies between host and device that are on their way, and what to wait for."""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, Self

from kernels.events import await_event


class PendingCopy:
    """A copy on its way.

    Args:
        events: A future of the CUDA events that end its transfers, or of none once it has arrived.
        awaited: Whether the copy is over only when these events have passed.
        awake: Whether who waits for that looks all the time.
    """

    def __init__(
        self, events: Future[list[Any]], *, awaited: bool = False, awake: bool = False
    ) -> None:
        self._events = events
        self._awaited = awaited
        self._awake = awake

    @classmethod
    def enqueued(cls, events: Sequence[Any], *, awaited: bool = False, awake: bool = False) -> Self:
        """A copy all of whose transfers are enqueued, or done."""
        known: Future[list[Any]] = Future()
        known.set_result(list(events))
        return cls(known, awaited=awaited, awake=awake)

    def done(self) -> bool:
        """Whether `result` would return at once."""
        if not self._events.done():
            return False
        return not self._awaited or all(event.done for event in self._events.result())

    def result(self) -> list[Any]:
        """Wait until it is over, and raise what went wrong.

        Returns:
            The CUDA events that end the transfers: of a copy inwards, which is over when all of
            its transfers are enqueued. A copy outwards is over when it has arrived.
        """
        events = self._events.result()
        if self._awaited:
            for event in events:
                await_event(event, awake=self._awake)
        return events
