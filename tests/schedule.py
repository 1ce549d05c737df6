"""What the steps of a product should take: a link of two ways and a GPU, simulated.

Copies in go one after the other, in the order of the steps, and so do kernels, and copies out. Each
begins when what it waits for is over. Kernels take their waves' time, those that add to a C that is
there read and write it as well, and each begins a little later than it could.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from wavetrim.kernels.panels import SPLIT_SHARE, PanelProblem
from wavetrim.kernels.steps import Step

LAUNCH_SECONDS = 6e-6
COPY_SECONDS = 8e-6
CALL_SECONDS = 90e-6


@dataclass(frozen=True)
class Machine:
    """Rates, in bytes and operations a second: of the H200 that the products were measured on."""

    operations: float = 52.5e12
    one_way: float = 55.2e9
    both_ways: float = 91.5e9
    memory: float = 3.5e12


@dataclass
class Work:
    """Something under way: seconds until it begins, and what is left of it."""

    index: int
    delay_seconds: float
    left: float

    def find_seconds(self, rate: float) -> float:
        return self.delay_seconds if self.delay_seconds > 0 else self.left / rate

    def advance(self, seconds: float, rate: float) -> bool:
        """Whether it is done after so many seconds more, which are at most those of one part."""
        if self.delay_seconds > 0:
            self.delay_seconds -= seconds
            if self.delay_seconds > 1e-12:
                return False
            self.delay_seconds = 0.0
            return self.left <= 0
        self.left -= rate * seconds
        return self.left <= 1e-9 * rate


class Schedule:
    """One product.

    Attributes:
        seconds: What it takes.
        idle_seconds: For how long of it no kernel runs.
    """

    def __init__(
        self, problem: PanelProblem, steps: Sequence[Step], machine: Machine | None = None
    ) -> None:
        self._problem, self._steps = problem, steps
        self._machine = machine or Machine()
        self._in_done: set[int] = set()
        self._kernel_done: set[int] = set()
        self._out_done: set[int] = set()
        self._leaving: deque[int] = deque()
        self._inward: Work | None = None
        self._kernel: Work | None = None
        self._outward: Work | None = None
        self.seconds = CALL_SECONDS
        self.idle_seconds = CALL_SECONDS
        last = sum(step.last for step in steps)
        while len(self._out_done) < last:
            self._begin()
            self._advance()

    def _begin(self) -> None:
        """Begin all that can."""
        index = len(self._in_done)
        if self._inward is None and index < len(self._steps):
            follows = self._steps[index].follows
            if follows < 0 or follows in self._kernel_done:
                self._inward = Work(index, COPY_SECONDS, self._count_in_bytes(index))
        index = len(self._kernel_done)
        if self._kernel is None and index in self._in_done:
            follows = self._steps[index].c_follows
            if follows < 0 or follows in self._out_done:
                self._kernel = Work(index, LAUNCH_SECONDS, self._find_kernel_seconds(index))
        if self._outward is None and self._leaving:
            index = self._leaving.popleft()
            self._outward = Work(index, COPY_SECONDS, self._count_out_bytes(index))

    def _advance(self) -> None:
        """To the next end, or the next beginning, of what is under way."""
        copies = [work for work in (self._inward, self._outward) if work is not None]
        moving = sum(work.delay_seconds <= 0 for work in copies)
        rate = self._machine.both_ways / 2 if moving == 2 else self._machine.one_way
        ends = [work.find_seconds(rate) for work in copies]
        if self._kernel is not None:
            ends.append(self._kernel.find_seconds(1.0))
        seconds = min(ends)  # there is none where nothing can go on
        self.seconds += seconds
        self.idle_seconds += seconds * (self._kernel is None)
        if self._inward is not None and self._inward.advance(seconds, rate):
            self._in_done.add(self._inward.index)
            self._inward = None
        if self._outward is not None and self._outward.advance(seconds, rate):
            self._out_done.add(self._outward.index)
            self._outward = None
        if self._kernel is not None and self._kernel.advance(seconds, 1.0):
            self._kernel_done.add(self._kernel.index)
            if self._steps[self._kernel.index].last:
                self._leaving.append(self._kernel.index)
            self._kernel = None

    def _count_in_bytes(self, index: int) -> float:
        step, item_bytes = self._steps[index], self._problem.item_bytes
        a_bytes = len(step.rows) * len(step.a_depth) * item_bytes
        b_bytes = len(step.depth) * len(step.columns) * item_bytes
        return a_bytes + step.loads_b * b_bytes

    def _count_out_bytes(self, index: int) -> int:
        step = self._steps[index]
        return len(step.rows) * len(step.columns) * self._problem.item_bytes

    def _find_kernel_seconds(self, index: int) -> float:
        step, problem = self._steps[index], self._problem
        tiles = -(-len(step.rows) // problem.tile_m) * -(-len(step.columns) // problem.tile_n)
        waves = max(tiles / problem.slots, 1 / SPLIT_SHARE)
        if not problem.splits_tail:
            waves = -(-tiles // problem.slots)
        operations = waves * problem.slots * problem.tile_m * problem.tile_n * 2 * len(step.depth)
        read_again = 0 if step.first else 2 * self._count_out_bytes(index)
        return operations / self._machine.operations + read_again / self._machine.memory
