"""Copies between host and device that are on their way, and what to wait for."""

from typing import Any, Protocol

from wavetrim.kernels.events import await_event, has_passed


class PendingCopy(Protocol):
    """A copy on its way.

    Inwards it is over when all of its transfers are enqueued; outwards when it has arrived.
    """

    @property
    def start(self) -> Any:
        """The CuPy event before its transfers."""

    @property
    def end(self) -> Any:
        """The CuPy event behind its transfers, recorded once it is over."""

    def done(self) -> bool:
        """Whether `result` would return at once."""

    def result(self, *, awake: bool = False) -> None:
        """Wait until it is over, and raise what went wrong.

        Args:
            awake: Whether to look for a transfer's end all the time, which costs a core.
        """


class DirectCopy:
    """Transfers between the caller's page-locked memory and the device; they are enqueued.

    Args:
        start: The event before them.
        end: The event behind them.
        outwards: Whether it is over only when that has passed.
        awake: Whether who waits for that looks all the time, in any case.
    """

    __slots__ = ("_awake", "_outwards", "end", "start")

    def __init__(self, start: Any, end: Any, *, outwards: bool, awake: bool) -> None:
        self.start = start
        self.end = end
        self._outwards = outwards
        self._awake = awake

    def done(self) -> bool:
        """As `PendingCopy` says."""
        return not self._outwards or has_passed(self.end)

    def result(self, *, awake: bool = False) -> None:
        """As `PendingCopy` says."""
        if self._outwards:
            await_event(self.end, awake=awake or self._awake)
