"""The rows of C that a run has finished, and the hooks by which its caller hears of them."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

from wavetrim.kernels.pipeline.host_product import GpuHooks
from wavetrim.scheduler.errors import ExecutionCancelled
from wavetrim.scheduler.execution.watchdog import Watched

Side = Literal["gpu", "cpu"]

_DECIMALS: Final = 6
"""Decimals of the rows that are reported; chosen."""

_CPU: Final = 1 << 16
"""Number of the CPU part, after all GPU parts."""


@dataclass(frozen=True, slots=True)
class RowsDone:
    """Finished rows of C by who computed them, and all its rows; a part of a row is a fraction.

    Those of nodes have come back from other hosts.
    """

    all: int
    gpu: float = 0.0
    cpu: float = 0.0
    nodes: float = 0.0

    @property
    def share(self) -> float:
        """The finished share of C's rows, 0…1."""
        return min(1.0, (self.gpu + self.cpu + self.nodes) / self.all)


@dataclass(frozen=True, slots=True)
class Hooks:
    """What a run calls, from any of its threads; None for what nobody asks for.

    Attributes:
        planned: Called with the plan's description before the product begins.
        progress: Called with the finished rows of C.
        final: Called with all rows of C that will not be written again, whenever there are more.
            Some may be missing until the product ends.
        changes: Called before rows that were final are computed again.
        cancelled: Polled while the product runs; True ends it. A product that is enqueued at once,
            or should take at most SHORT_SECONDS, is only ended before it begins.
    """

    planned: Callable[[Mapping[str, Any]], None] | None = None
    progress: Callable[[RowsDone], None] | None = None
    final: Callable[[Sequence[range]], None] | None = None
    changes: Callable[[], None] | None = None
    cancelled: Callable[[], bool] | None = None

    def end_if_cancelled(self) -> None:
        """Raise an error if the run is to end.

        Raises:
            ExecutionCancelled: `cancelled` returned True.
        """
        if self.cancelled is not None and self.cancelled():
            raise ExecutionCancelled("the execution was asked to stop")


NO_HOOKS: Final = Hooks()
"""Nobody listens."""


class RowReports:
    """Joins what the parts of a product with so many rows report, for its hooks. Thread-safe."""

    def __init__(self, rows: int, hooks: Hooks) -> None:
        self._rows, self._hooks = rows, hooks
        self._sums: dict[Side, float] = {"gpu": 0.0, "cpu": 0.0}
        self._final: dict[int, list[range]] = {}
        self._lock = threading.Lock()

    def add(self, side: Side, rows: float) -> None:
        """Add newly finished rows, rounded: fractions add up to a little more than all rows."""
        if self._hooks.progress is None:
            return
        with self._lock:
            self._sums[side] += rows
            done = {one: round(sum_, _DECIMALS) for one, sum_ in self._sums.items()}
            self._hooks.progress(RowsDone(self._rows, gpu=done["gpu"], cpu=done["cpu"]))

    def open_gpu(
        self, part: int, start: int = 0, *, share: float = 1.0, watched: Watched | None = None
    ) -> GpuHooks:
        """The hooks of a GPU part.

        Args:
            part: Number of the part, from 0.
            start: Its first row of C.
            share: Its share of the columns. No rows are final where other GPUs write columns.
            watched: Told of its progress, too.
        """

        def count_rows(rows: float) -> None:
            if watched is not None:
                watched.note_progress()
            self.add("gpu", share * rows)

        if self._hooks.final is None or share != 1:
            return GpuHooks(count_rows, None)
        return GpuHooks(count_rows, lambda rows: self._take_final(part, start, [rows]))

    def open_cpu(self, start: int) -> Callable[[Sequence[range]], None] | None:
        """Callback of the CPU part, which counts from `start`, for its final rows; or None."""
        return None if self._hooks.final is None else partial(self._take_final, _CPU, start)

    def _take_final(self, part: int, start: int, rows: Sequence[range]) -> None:
        assert self._hooks.final is not None, "parts report final rows only where one asks for them"
        with self._lock:
            self._final[part] = [range(start + one.start, start + one.stop) for one in rows]
            found = [one for number in sorted(self._final) for one in self._final[number]]
            self._hooks.final([one for one in found if one])
