"""When each step of a product begins and ends: one recurrence over the list of its steps.

Copies in, kernels and copies out are three queues on the device. Each takes its steps in their
order, and a step begins when the one before it in its queue is done, and what it waits for: a
kernel for its copies, a copy in for the kernel that used its buffer last, a copy out for its
kernel. While both ways of the link are busy, copies take longer.

The rates come from whoever knows the machine: there is none in this file.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

from wavetrim.kernels.gemm.tails import divide_tiles
from wavetrim.kernels.pipeline.panels import PanelProblem
from wavetrim.kernels.pipeline.steps import Step


@dataclass(frozen=True, slots=True)
class Rates:
    """What a machine's link and one kernel take.

    Attributes:
        in_bytes_per_second: From the caller's memory to the device.
        out_bytes_per_second: From the device to the caller's memory.
        duplex: How many times as long a copy takes while the other way is busy: 1 where the ways do
            not hold each other up, 2 where they take turns.
        copy_seconds: Until a copy's first byte moves.
        enqueue_seconds: What the calling thread takes to enqueue a step.
        call_seconds: What a product takes beyond its steps.
        launch_seconds: Until a kernel's first wave runs.
        wave_seconds: Of one wave of tiles, whatever the depth.
        depth_seconds: Of one wave for each unit of depth.
        memory_bytes_per_second: The device's memory: kernels that add to C read and write it.
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

    def slow_copies(self, factor: float) -> "Rates":
        """The same where copies take `times` as long."""
        return replace(
            self,
            in_bytes_per_second=self.in_bytes_per_second / factor,
            out_bytes_per_second=self.out_bytes_per_second / factor,
        )

    def find_kernel_seconds(self, problem: PanelProblem, rows: int, columns: int, k: int) -> float:
        """Seconds of one launch over `rows` × `columns` of C and a depth of `k`."""
        tiles = -(-rows // problem.tile_m) * -(-columns // problem.tile_n)
        waves: float = -(-tiles // problem.slots)
        if problem.splits_tail:
            steps = -(-k // problem.tile_k)
            waves = divide_tiles(tiles, steps, problem.slots).steps / steps
        return self.launch_seconds + waves * (self.wave_seconds + k * self.depth_seconds)


@dataclass(frozen=True, slots=True)
class Timeline:
    """When things happen, in seconds from the call.

    Attributes:
        seconds: When the last part of C is back.
        copies_in: Begin and end of each step's copy in.
        kernels: Begin and end of each step's kernel.
        copies_out: Begin and end of each step's copy out; None for steps that bring nothing back.
    """

    seconds: float
    copies_in: tuple[tuple[float, float], ...]
    kernels: tuple[tuple[float, float], ...]
    copies_out: tuple[tuple[float, float] | None, ...]

    @property
    def copying_seconds(self) -> float:
        """For how long copies are under way, one way or both."""
        copying, until = 0.0, 0.0
        for begin, end in sorted((*self.copies_in, *filter(None, self.copies_out))):
            copying += max(0.0, end - max(begin, until))
            until = max(until, end)
        return copying


def time_schedule(problem: PanelProblem, steps: Sequence[Step], rates: Rates) -> Timeline:
    """Seconds of a product's steps: a recurrence in which each step costs some microseconds.

    Args:
        problem: The product.
        steps: Its steps, in their order.
        rates: What the machine takes for them.
    """
    loads = [_count_in_bytes(problem, step) / rates.in_bytes_per_second for step in steps]
    kernels = [_find_step_seconds(problem, step, rates) for step in steps]
    stores = _list_out_seconds(problem, steps, rates)
    return _Queues(steps, loads, kernels, stores, rates).run()


def _count_in_bytes(problem: PanelProblem, step: Step) -> int:
    items = len(step.rows) * len(step.a_depth)
    if step.loads_b:
        items += len(step.depth) * len(step.columns)
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
    """The three queues, followed from one beginning or end to the next.

    At any time at most one copy in, one kernel and one copy out are under way. Only the copies can
    change each other's pace, so what is left of each is counted in seconds at its own rate.

    Args:
        steps: The steps, in their order.
        loads: Seconds of each step's copy in.
        kernels: Seconds of each step's kernel.
        stores: Seconds of each step's copy out.
        rates: What else the machine takes.
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
        # One more than there are: what begins behind the last step never does.
        count = len(steps) + 1
        self._in_begins, self._in_ends = [inf] * count, [inf] * count
        self._kernel_begins, self._kernel_ends = [inf] * count, [inf] * count
        self._out_begins, self._out_ends = [inf] * count, [inf] * count
        self._leaving = [index for index, step in enumerate(steps) if step.last]
        self._loaded = self._computed = self._left = 0  # how many of each are done
        self._in_seconds = self._out_seconds = 0.0  # what is left of the copies under way
        self._now = rates.call_seconds

    def run(self) -> Timeline:
        """Follow them to the end."""
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
        """To what ends or begins next, at the pace that holds until then."""
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
