"""Copies on their way: what to wait for, and how their shares find out which of them is last."""

import threading
from concurrent.futures import Future
from typing import Any


class PendingCopy:
    """A copy on its way.

    Args:
        pieces: A future of one future, or one `Transfer`, a piece.
    """

    def __init__(self, pieces: Future[list[Any]]) -> None:
        self._pieces = pieces

    def done(self) -> bool:
        """Whether `result` would return at once."""
        return self._pieces.done() and (
            self._pieces.exception() is not None
            or all(piece.done() for piece in self._pieces.result())
        )

    def result(self) -> list[Any]:
        """Wait, and raise what went wrong.

        Returns:
            The CUDA events that end the transfers: of a copy inwards, which is over when all of
            its transfers are enqueued. A copy outwards is over when it has arrived.
        """
        return [piece.result() for piece in self._pieces.result()]


class Transfer:
    """A transfer between page-locked memory and the device, once it is enqueued.

    Args:
        end: The CUDA event behind it.
        waits: Whether it is over when it has arrived; else when it is enqueued.
    """

    def __init__(self, end: Any, *, waits: bool) -> None:
        self._end = end
        self._waits = waits

    def done(self) -> bool:
        """Whether `result` would return at once."""
        return not self._waits or bool(self._end.done)

    def result(self) -> Any:
        """Wait, and return the event."""
        if self._waits:
            self._end.synchronize()
        return self._end


class Countdown:
    """Shares of a piece that are not done, and the first error of those that are."""

    def __init__(self, count: int) -> None:
        self._lock = threading.Lock()
        self._count = count
        self.error: BaseException | None = None

    def fail(self, error: BaseException) -> None:
        """Keep an error for whoever comes last."""
        self.error = self.error or error

    def count_down(self) -> bool:
        """One share less; True for the last."""
        with self._lock:
            self._count -= 1
            return self._count == 0
