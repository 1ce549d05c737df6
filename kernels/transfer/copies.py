"""Pending copies between host and device."""

from typing import Any, Protocol

from wavetrim.kernels.events import await_event, has_passed


class PendingCopy(Protocol):
    """A copy under way.

    To the device it is done when all transfers are enqueued, to the host when all bytes arrived.
    """

    @property
    def start(self) -> Any:
        """CuPy event before its transfers."""

    @property
    def end(self) -> Any:
        """CuPy event after its transfers, recorded once it is done."""

    def done(self) -> bool:
        """Whether `result` would return at once."""

    def result(self, *, awake: bool = False) -> None:
        """Wait until it is done, and raise its error, or an earlier one that stopped the stage.

        Args:
            awake: Whether to poll all the time, which occupies a core.
        """


class DirectCopy:
    """A copy whose transfers are all enqueued.

    Args:
        start: Event before the transfers.
        end: Event after the transfers.
        outwards: Whether the copy is done only when `end` has passed.
        awake: Whether waiting always polls.
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
