"""Seconds between the events of one product, added up while it runs."""

from collections.abc import Sequence
from typing import Any

from wavetrim.kernels.events import find_runtime, has_passed
from wavetrim.kernels.transfer.copies import PendingCopy


class Spans:
    """Adds up what has passed: reading events takes time, and so little is left for the end.

    Attributes:
        kernel_seconds: Kernels.
        transfer_seconds: Transfers both ways.
    """

    def __init__(self) -> None:
        self._read = find_runtime().eventElapsedTime
        self._starts: list[Any] = []
        self._end: Any = None
        self.kernel_seconds = 0.0
        self.transfer_seconds = 0.0

    @property
    def gpu_seconds(self) -> float:
        """From the start of the first step's copies to the end of the last step's."""
        between = (float(self._read(start.ptr, self._end.ptr)) for start in self._starts)
        return max(between, default=0.0) / 1e3

    def add(self, launch: tuple[Any, Any], copies: Sequence[PendingCopy]) -> None:
        """Add a step that is done.

        Args:
            launch: The events around its kernel.
            copies: Its copies in and out, in their order.
        """
        if not self._starts:
            self._starts = [copy.start for copy in copies]
        self._end = end = copies[-1].end
        if not has_passed(end):  # a stage has only just recorded it
            end.synchronize()
        self.kernel_seconds += self._read(launch[0].ptr, launch[1].ptr) / 1e3
        for copy in copies:
            self.transfer_seconds += self._read(copy.start.ptr, copy.end.ptr) / 1e3
