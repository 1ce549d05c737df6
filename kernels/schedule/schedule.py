"""The time of a schedule: a recurrence over the list of steps.

Copies in, kernels and copies out are three queues on the device. Each queue takes its steps in
order. A step begins when its predecessor in the queue is done, and when its dependencies are: a
kernel needs its copies in, a copy in needs the last kernel that used its buffer, a copy out needs
its kernel. Copies are slower while both directions of the link are busy (duplex).

All rates are arguments; this file has none of a machine.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

from wavetrim.kernels.gemm.tails import divide_tiles
from wavetrim.kernels.schedule.panels import PanelProblem
from wavetrim.kernels.schedule.steps import Step


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates of a machine's link and of one kernel.

    Attributes:
        in_bytes_per_second: Copies from host memory to the device.
        out_bytes_per_second: Copies from the device to host memory.
        duplex: Factor on the time of a copy while the other direction is busy: 1 for independent
            directions, 2 for directions that take turns.
        copy_seconds: Latency of a copy.
        enqueue_seconds: Time of the calling thread to enqueue a step.
        call_seconds: Time of a product before its first step.
        launch_seconds: Latency of a kernel launch.
        wave_seconds: The part of a wave's time that does not depend on K.
        depth_seconds: Time of a wave for each unit of K.
        memory_bytes_per_second: Bandwidth of device memory, where kernels that add to C read and
            write it.
        b_share: Time to copy in B divided by that over this link alone: below 1 where GPUs exchange
            parts of B.
    """

    in_bytes_per_second: float
    out_bytes_per_second: float
    duplex: float
    copy_seconds: float
    enqueue_seconds: float
    call_seconds: float
    launch_seconds: float
    wave_seconds: float
    depth_seconds: float
    memory_bytes_per_second: float
    b_share: float = 1.0

    def slow_copies(self, factor: float) -> "Rates":
        """The rates where copies take `factor` times as long."""
        return replace(
            self,
            in_bytes_per_second=self.in_bytes_per_second / factor,
            out_bytes_per_second=self.out_bytes_per_second / factor,
        )

    def find_kernel_seconds(self, problem: PanelProblem, rows: int, columns: int, k: int) -> float:
        """Seconds of one launch over `rows` × `columns` of C and a depth of `k`."""
        tiles = -(-rows // problem.tile_m) * -(-columns // problem.tile_n)
        waves: float = -(-tiles // problem.slots)
        if problem.splits_tail or (problem.splits_short and tiles < problem.slots):
            steps = -(-k // problem.tile_k)
            waves = divide_tiles(tiles, steps, problem.slots).steps / steps
        return self.launch_seconds + waves * (self.wave_seconds + k * self.depth_seconds)


@dataclass(frozen=True, slots=True)
class Timeline:
    """Begin and end of everything, in seconds from the call.

    Attributes:
        seconds: End of the last copy out.
        copies_in: Begin and end of each step's copy in.
        kernels: Begin and end of each step's kernel.
        copies_out: Begin and end of each step's copy out; None for steps without one.
    """

    seconds: float
    copies_in: tuple[tuple[float, float], ...]
    kernels: tuple[tuple[float, float], ...]
    copies_out: tuple[tuple[float, float] | None, ...]

    @property
    def copying_seconds(self) -> float:
        """Time during which at least one copy is under way."""
        copying, until = 0.0, 0.0
        for begin, end in sorted((*self.copies_in, *filter(None, self.copies_out))):
            copying += max(0.0, end - max(begin, until))
            until = max(until, end)
        return copying


def time_schedule(problem: PanelProblem, steps: Sequence[Step], rates: Rates) -> Timeline:
    """The timeline of a product's steps. Computing it takes some microseconds a step.

    Args:
        problem: The product.
        steps: Its steps, in order.
        rates: The machine's rates.
    """
    loads = [_count_in_bytes(problem, step, rates) / rates.in_bytes_per_second for step in steps]
    kernels = [_find_step_seconds(problem, step, rates) for step in steps]
    stores = _list_out_seconds(problem, steps, rates)
    return _Queues(steps, loads, kernels, stores, rates).run()


def _count_in_bytes(problem: PanelProblem, step: Step, rates: Rates) -> float:
    items: float = len(step.rows) * len(step.a_depth)
    if step.loads_b:
        items += len(step.depth) * len(step.columns) * rates.b_share
    return items * problem.item_bytes


def _find_step_seconds(problem: PanelProblem, step: Step, rates: Rates) -> float:
    rows, columns = len(step.rows), len(step.columns)
    seconds = rates.find_kernel_seconds(problem, rows, columns, len(step.depth))
    if not step.first:  # C is read and written once more
        seconds += 2 * rows * columns * problem.item_bytes / rates.memory_bytes_per_second
    return seconds


def _list_out_seconds(problem: PanelProblem, steps: Sequence[Step], rates: Rates) -> list[float]:
    item_seconds = problem.item_bytes / rates.out_bytes_per_second
    return [len(step.rows) * len(step.columns) * item_seconds * step.last for step in steps]


class _Queues:
    """Simulation of the three queues, from one event to the next.

    At most one copy in, one kernel and one copy out are under way at a time. The two copies slow
    each other, so what is left of each is counted in seconds without the other.

    Args:
        steps: The steps, in order.
        loads: Seconds of each step's copy in.
        kernels: Seconds of each step's kernel.
        stores: Seconds of each step's copy out.
        rates: The other rates of the machine.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        loads: Sequence[float],
        kernels: Sequence[float],
        stores: Sequence[float],
        rates: Rates,
    ) -> None:
        self._steps, self._loads, self._kernels, self._stores = steps, loads, kernels, stores
        self._rates = rates
        # One entry more than steps: the step after the last never begins.
        count = len(steps) + 1
        self._in_begins, self._in_ends = [inf] * count, [inf] * count
        self._kernel_begins, self._kernel_ends = [inf] * count, [inf] * count
        self._out_begins, self._out_ends = [inf] * count, [inf] * count
        self._leaving = [index for index, step in enumerate(steps) if step.last]
        self._loaded = self._computed = self._left = 0  # finished copies in, kernels, copies out
        self._in_seconds = self._out_seconds = 0.0  # left of the copies under way
        self._now = rates.call_seconds

    def run(self) -> Timeline:
        """Simulate until the last copy out ends."""
        while self._left < len(self._leaving):
            self._begin_kernel()
            self._begin_copies()
            self._pass_time()
        outs = zip(self._steps, self._out_begins, self._out_ends, strict=False)
        count = len(self._steps)
        return Timeline(
            self._now,
            tuple(zip(self._in_begins[:count], self._in_ends, strict=False)),
            tuple(zip(self._kernel_begins[:count], self._kernel_ends, strict=False)),
            tuple((begin, end) if step.last else None for step, begin, end in outs),
        )

    def _begin_kernel(self) -> None:
        index = self._computed
        if index < self._loaded and self._kernel_begins[index] == inf:
            follows = self._steps[index].c_follows
            if follows < 0 or self._out_ends[follows] <= self._now:
                self._kernel_begins[index] = self._now
                self._kernel_ends[index] = self._now + self._kernels[index]

    def _begin_copies(self) -> None:
        index, rates, now = self._loaded, self._rates, self._now
        if index < len(self._steps) and self._in_begins[index] == inf:
            follows = self._steps[index].follows
            if follows < 0 or self._kernel_ends[follows] <= now:
                self._in_seconds = seconds = self._loads[index]
                enqueued = max(now, rates.call_seconds + index * rates.enqueue_seconds)
                self._in_begins[index] = enqueued + rates.copy_seconds * (seconds > 0)
        index = self._leaving[self._left]
        if index < self._computed and self._out_begins[index] == inf:
            self._out_begins[index] = now + rates.copy_seconds
            self._out_seconds = self._stores[index]

    def _pass_time(self) -> None:
        """Advance to the next event at the current rates."""
        now, loaded, leaving = self._now, self._loaded, self._leaving[self._left]
        comes, goes = self._in_begins[loaded] <= now, self._out_begins[leaving] <= now
        pace = self._rates.duplex if comes and goes else 1.0
        in_next = now + self._in_seconds * pace if comes else self._in_begins[loaded]
        out_next = now + self._out_seconds * pace if goes else self._out_begins[leaving]
        self._now = then = min(self._kernel_ends[self._computed], in_next, out_next)
        passed = (then - now) / pace
        if comes:
            self._in_seconds -= passed
            if in_next <= then:
                self._in_ends[loaded] = then
                self._loaded += 1
        if goes:
            self._out_seconds -= passed
            if out_next <= then:
                self._out_ends[leaving] = then
                self._left += 1
        if self._kernel_ends[self._computed] <= then:
            self._computed += 1
