"""Copies between host and device that are on their way, and what to wait for."""

from typing import Any, Protocol

from kernels.events import await_event, has_passed
from kernels.stages import Walk


class PendingCopy(Protocol):
    """A copy on its way.

    Inwards it is over when all of its transfers are enqueued; outwards when it has arrived.
    """

    @property
    def end(self) -> Any:
        """The CuPy event behind its transfers, recorded once it is over."""

    def done(self) -> bool:
        """Whether `result` would return at once."""

    def result(self) -> None:
        """Wait until it is over, and raise what went wrong."""


class StagedCopy:
    """A copy through a stage.

    Args:
        walk: Its errand.
        end: The event behind it.
    """

    def __init__(self, walk: Walk, end: Any) -> None:
        self._walk = walk
        self.end = end

    def done(self) -> bool:
        """As `PendingCopy` says."""
        return self._walk.done()

    def result(self) -> None:
        """As `PendingCopy` says."""
        self._walk.result()


class DirectCopy:
    """A transfer between the caller's page-locked memory and the device; it is enqueued.

    Args:
        end: The event behind it.
        outwards: Whether it is over only when that has passed.
        awake: Whether who waits for that looks all the time.
    """

    def __init__(self, end: Any, *, outwards: bool, awake: bool) -> None:
        self.end = end
        self._outwards = outwards
        self._awake = awake

    def done(self) -> bool:
        """As `PendingCopy` says."""
        return not self._outwards or has_passed(self.end)

    def result(self) -> None:
        """As `PendingCopy` says."""
        if self._outwards:
            await_event(self.end, awake=self._awake)
