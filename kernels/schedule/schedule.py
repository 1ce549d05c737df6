"""The time of a schedule: a recurrence over the list of steps.

Copies in, kernels and copies out are three queues on the device. Each queue takes its steps in
order. A step begins when its predecessor in the queue is done, and when its dependencies are: a
kernel needs its copies in, a copy in needs the last kernel that used its buffer, a copy out needs
its kernel. Copies are slower while both directions of the link are busy (duplex). GPUs that
exchange B have a fourth queue: each part of B that came in over the own link is followed by those
that come from the other GPUs, which the kernel needs, too.

All rates are arguments; this file has none of a machine.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final, NamedTuple

from wavetrim.kernels.gemm.tails import divide_tiles
from wavetrim.kernels.schedule.panels import PanelProblem
from wavetrim.kernels.schedule.steps import Step

PAGE_BYTES: Final = 64 << 10
"""Page of host memory as an NVIDIA GPU maps it, in bytes. From rows of this length on, each row of
a copied part costs the same (H100, 1f09f97; docs/notes/memory.md)."""


_CERTAIN: Final = 1 - 1e-9
"""Factor on a lower bound of seconds, so that rounding does not make it a higher one."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates of a machine's link and of one kernel.

    Attributes:
        in_bytes_per_second: Copies from host memory to the device.
        out_bytes_per_second: Copies from the device to host memory.
        duplex: Factor on the time of a copy while the other direction is busy: 1 for independent
            directions, 2 for directions that take turns.
        copy_seconds: Latency of a copy.
        row_seconds: Time that each row adds to a copy of parts of rows: each part lies on another
            page of host memory, which the device has to find.
        enqueue_seconds: Time of the calling thread to enqueue a step.
        call_seconds: Time of a product before its first step.
        launch_seconds: Latency of a kernel launch.
        wave_seconds: The part of a wave's time that does not depend on K.
        depth_seconds: Time of a wave for each unit of K.
        memory_bytes_per_second: Bandwidth of device memory, where kernels that add to C read and
            write it.
        peers: Other GPUs with which B is exchanged; 0 if all of it is copied in over this link.
        peer_bytes_per_second: Copies from other GPUs.
    """

    in_bytes_per_second: float
    out_bytes_per_second: float
    duplex: float
    copy_seconds: float
    row_seconds: float
    enqueue_seconds: float
    call_seconds: float
    launch_seconds: float
    wave_seconds: float
    depth_seconds: float
    memory_bytes_per_second: float
    peers: int = 0
    peer_bytes_per_second: float = inf

    @property
    def b_share(self) -> float:
        """Share of B that is copied in over this link."""
        return 1 / (1 + self.peers)

    def slow_copies(self, factor: float) -> "Rates":
        """The rates where copies take `factor` times as long."""
        return replace(
            self,
            in_bytes_per_second=self.in_bytes_per_second / factor,
            out_bytes_per_second=self.out_bytes_per_second / factor,
            row_seconds=self.row_seconds * factor,
        )

    def find_row_seconds(self, row_bytes: int) -> float:
        """Time that each row adds to a copy of parts of rows, which are this long as a whole.

        Rows shorter than a page share one, and so its cost.
        """
        return self.row_seconds * min(1.0, row_bytes / PAGE_BYTES)

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


class _Seconds(NamedTuple):
    """Seconds of each step in each queue.

    Attributes:
        loads: Copies in.
        passes: Copies from other GPUs.
        kernels: Kernels.
        stores: Copies out.
    """

    loads: Sequence[float]
    passes: Sequence[float]
    kernels: Sequence[float]
    stores: Sequence[float]


def time_schedule(problem: PanelProblem, steps: Sequence[Step], rates: Rates) -> Timeline:
    """The timeline of a product's steps. Computing it takes some microseconds a step.

    Args:
        problem: The product.
        steps: Its steps, in order.
        rates: The machine's rates.
    """
    return _simulate(steps, _list_seconds(problem, steps, rates), rates)


def find_seconds(
    problem: PanelProblem, steps: Sequence[Step], rates: Rates, limit_seconds: float
) -> float:
    """The seconds of a product's steps; infinite if they are certain to take `limit_seconds`.

    No kernel begins before the first copy in has ended, and no last copy out before the kernels
    have. Most cuts in a search are told apart by that, without their timeline.
    """
    seconds = _list_seconds(problem, steps, rates)
    loads, _, kernels, stores = seconds
    between_seconds = max(sum(kernels), sum(loads[1:]) + kernels[-1])
    least_seconds = rates.call_seconds + loads[0] + between_seconds + stores[-1]
    if least_seconds * _CERTAIN >= limit_seconds:
        return inf
    return _simulate(steps, seconds, rates).seconds


def _list_seconds(problem: PanelProblem, steps: Sequence[Step], rates: Rates) -> _Seconds:
    return _Seconds(
        loads=_list_in_seconds(problem, steps, rates),
        passes=_list_pass_seconds(problem, steps, rates) if rates.peers else [0.0] * len(steps),
        kernels=[_find_step_seconds(problem, step, rates) for step in steps],
        stores=_list_out_seconds(problem, steps, rates),
    )


def _list_in_seconds(problem: PanelProblem, steps: Sequence[Step], rates: Rates) -> list[float]:
    n, k, item_bytes = problem.n, problem.k, problem.item_bytes
    item_seconds = item_bytes / rates.in_bytes_per_second
    a_row_seconds = rates.find_row_seconds(k * item_bytes)
    b_row_seconds = rates.find_row_seconds(n * item_bytes)
    b_share, all_seconds = rates.b_share, []
    for step in steps:
        columns, a_depth, seconds = len(step.columns), len(step.a_depth), 0.0
        if a_depth:
            row_seconds = a_depth * item_seconds + a_row_seconds * (a_depth < k)
            seconds += len(step.rows) * row_seconds
        if step.loads_b:
            row_seconds = columns * item_seconds + b_row_seconds * (columns < n)
            seconds += b_share * len(step.depth) * row_seconds
        all_seconds.append(seconds)
    return all_seconds


def _list_pass_seconds(problem: PanelProblem, steps: Sequence[Step], rates: Rates) -> list[float]:
    """Seconds in which each step's part of B comes from the other GPUs."""
    item_seconds = problem.item_bytes * (1 - rates.b_share) / rates.peer_bytes_per_second
    latency_seconds = rates.peers * rates.copy_seconds
    return [
        (latency_seconds + len(step.depth) * len(step.columns) * item_seconds) * step.loads_b
        for step in steps
    ]


def _find_step_seconds(problem: PanelProblem, step: Step, rates: Rates) -> float:
    rows, columns = len(step.rows), len(step.columns)
    seconds = rates.find_kernel_seconds(problem, rows, columns, len(step.depth))
    if not step.first:  # C is read and written once more
        seconds += 2 * rows * columns * problem.item_bytes / rates.memory_bytes_per_second
    return seconds


def _list_out_seconds(problem: PanelProblem, steps: Sequence[Step], rates: Rates) -> list[float]:
    n, item_bytes = problem.n, problem.item_bytes
    item_seconds = item_bytes / rates.out_bytes_per_second
    added_seconds = rates.find_row_seconds(n * item_bytes)
    widths = [len(step.columns) for step in steps]
    return [
        len(step.rows) * (width * item_seconds + added_seconds * (width < n)) * step.last
        for step, width in zip(steps, widths, strict=True)
    ]


def _simulate(
    steps: Sequence[Step],
    seconds: _Seconds,
    rates: Rates,
) -> Timeline:
    """Follow the queues from one event to the next, until the last copy out ends.

    At most one copy in, one kernel and one copy out are under way at a time. The two copies slow
    each other, so what is left of each is counted in seconds without the other. One loop over local
    variables, because the planner times hundreds of schedules for a product.

    Args:
        steps: The steps, in order.
        seconds: Seconds of each step in each queue.
        rates: The other rates of the machine.
    """
    loads, passes, kernels, stores = seconds
    copies_in: list[tuple[float, float]] = []
    launches: list[tuple[float, float]] = []
    copies_out: list[tuple[float, float] | None] = [None] * len(steps)
    leaving = (index for index, step in enumerate(steps) if step.last)
    leaves, count = next(leaving), len(steps)  # the step that is copied out next
    loaded = computed = 0  # the steps that are copied in and computed next
    in_rest = out_rest = kernel_begin = 0.0
    in_begin = out_begin = kernel_end = inf  # nothing is under way
    copy_seconds, enqueue_seconds, duplex = rates.copy_seconds, rates.enqueue_seconds, rates.duplex
    now = passed = call_seconds = rates.call_seconds
    complete: list[float] = []  # when each step has all of its B
    while leaves < count:
        if kernel_end == inf and computed < loaded and steps[computed].c_follows < leaves:
            kernel_begin = max(now, complete[computed])
            kernel_end = kernel_begin + kernels[computed]
        if in_begin == inf and loaded < count and steps[loaded].follows < computed:
            in_rest = loads[loaded]
            enqueued = max(now, call_seconds + loaded * enqueue_seconds)
            in_begin = enqueued + copy_seconds * (in_rest > 0)
        if out_begin == inf and leaves < computed:
            out_begin, out_rest = now + copy_seconds, stores[leaves]
        comes, goes = in_begin <= now, out_begin <= now
        pace = duplex if comes and goes else 1.0
        in_next = now + in_rest * pace if comes else in_begin
        out_next = now + out_rest * pace if goes else out_begin
        before, now = now, min(kernel_end, in_next, out_next)
        if kernel_end <= now:
            launches.append((kernel_begin, kernel_end))
            computed, kernel_end = computed + 1, inf
        if comes:
            in_rest -= (now - before) / pace
            if in_next <= now:
                copies_in.append((in_begin, now))
                passed = max(now, passed) + passes[loaded]
                complete.append(passed)
                loaded, in_begin = loaded + 1, inf
        if goes:
            out_rest -= (now - before) / pace
            if out_next <= now:
                copies_out[leaves], out_begin = (out_begin, now), inf
                leaves = next(leaving, count)
    return Timeline(now, tuple(copies_in), tuple(launches), tuple(copies_out))
