"""The fastest cut of a product: a dozen are timed, each by a recurrence over three queues.

Kernels need B and rows of A, and only computed rows can be copied out. So a cut decides how soon
the first kernel starts, and into how many panels the rest is divided. All rates are arguments.

Copies in, kernels and copies out are queues on the device; each takes the parts in order. With
in(i), run(i) and out(i) as the seconds of part i, their ends are

    loaded(i)   = max(loaded(i-1), freed(i)) + in(i)        freed: a buffer's last kernel
    computed(i) = max(computed(i-1), loaded(i)) + run(i)    run: launch + waves · (w + depth · d)
    stored(i)   = max(stored(i-1), computed(i)) + out(i)

and the product takes stored(last). Copies are slower while both directions of the link are busy
(duplex). GPUs that exchange B have a fourth queue, for the pieces of B from the other GPUs; the
kernel waits for these, too.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf
from typing import Final, NamedTuple

from wavetrim.kernels.schedule.buffers import Buffers, fit_buffers
from wavetrim.kernels.schedule.panels import (
    DEPTH_QUANTUM,
    Cut,
    PanelProblem,
    Part,
    divide_up,
    list_parts,
    take_whole,
)

PANELS: Final = (1, 2, 4, 8, 16, 32)
A_FIRST_PANELS: Final = (2, 16)
"""Numbers of panels that are tried, and those with which A comes first where K is cut. Chosen: few,
because each new shape tries all. With all 18 cuts the fastest is predicted 0.1% lower."""

DEPTH_PARTS: Final = 6
"""Parts of K in which the first panel is computed while B arrives; chosen."""

LEAST_DEPTH: Final = 128
"""Least K that is cut so; chosen."""

_NEAR: Final = 0.7
"""Share of a wave above which a panel is rounded to whole waves; chosen."""

_PANELS, _GROUPS, _DEPTHS = 64, 2, 16
"""Most panels, groups of columns and parts of K that the recurrence visits; chosen. The time of a
product with more is a multiple of theirs."""

PAGE_BYTES: Final = 64 << 10
"""Page of host memory as an NVIDIA GPU maps it, in bytes. Each row of a copied part that is at
least as long costs the same time (H100, 1f09f97; docs/notes/memory.md)."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates of a machine's link and of one kernel.

    Attributes:
        in_bytes_per_second: Copies from host memory to the device.
        out_bytes_per_second: Copies from the device to host memory.
        duplex: Factor on the time of a copy while the other direction is busy: 1 for independent
            directions, 2 for directions that take turns.
        call_seconds: Time of a product before its first step.
        step_seconds: Fixed time of a step: to enqueue it, and the latency of a copy.
        row_seconds: Time that each row adds to a copy of parts of rows: each is on another page of
            host memory, whose address the device must translate.
        launch_seconds: Latency of a kernel launch.
        wave_seconds: The part of a wave's time that does not depend on K.
        depth_seconds: Time of a wave for each unit of K.
        memory_bytes_per_second: Bandwidth of device memory, with which kernels that add to C read
            and write it.
        peers: Other GPUs with which B is exchanged; 0 if all of it is copied in over this link.
        peer_bytes_per_second: Copies from other GPUs.
    """

    in_bytes_per_second: float
    out_bytes_per_second: float
    duplex: float
    call_seconds: float
    step_seconds: float
    row_seconds: float
    launch_seconds: float
    wave_seconds: float
    depth_seconds: float
    memory_bytes_per_second: float
    peers: int = 0
    peer_bytes_per_second: float = inf

    def find_wave_seconds(self, depth: int) -> float:
        """Seconds of a wave."""
        return self.wave_seconds + depth * self.depth_seconds

    def find_kernel_seconds(
        self, problem: PanelProblem, rows: int, columns: int, depth: int
    ) -> float:
        """Seconds of a launch: its latency and its waves."""
        waves = problem.find_waves(rows, columns, depth)
        return self.launch_seconds + waves * self.find_wave_seconds(depth)


class Spans(NamedTuple):
    """When a part is at work, in seconds from the call: begin and end of each queue.

    Attributes:
        part: The part.
        copy_in: Its copy in.
        kernel: Its kernel.
        copy_out: Its copy out; None if later parts add to its C.
    """

    part: Part
    copy_in: tuple[float, float]
    kernel: tuple[float, float]
    copy_out: tuple[float, float] | None


class TimedCut(NamedTuple):
    """A cut and the seconds of its parts."""

    seconds: float
    cut: Cut


@lru_cache(maxsize=4096)
def find_fastest(problem: PanelProblem, rates: Rates, gpu_memory_bytes: int) -> TimedCut:
    """The fastest cut of the family that fits the memory.

    Raises:
        OperandError: Not even one tile fits; the message names the smallest `gpu_memory_bytes`.
    """
    return min(
        TimedCut(time_cut(problem, cut, rates, gpu_memory_bytes), cut)
        for cut in list_cuts(problem, rates)
    )


def time_cut(
    problem: PanelProblem,
    cut: Cut,
    rates: Rates,
    gpu_memory_bytes: int,
    spans: list[Spans] | None = None,
) -> float:
    """Predicted seconds of a product by one cut. Of very many parts only some are visited.

    Args:
        problem: The product.
        cut: How it is cut.
        rates: The rates of the machine.
        gpu_memory_bytes: Device memory for buffers.
        spans: Receives when each visited part is at work; None if nobody asks.
    """
    buffers = fit_buffers(problem, cut.panel_rows, cut.first_rows, gpu_memory_bytes)
    some, times = _take_some(problem, buffers)
    return times * _time_parts(some, list_parts(some, cut, buffers), rates, buffers.slots, spans)


def _take_some(problem: PanelProblem, buffers: Buffers) -> tuple[PanelProblem, float]:
    """A product with few enough parts to visit, and the whole as a multiple of it."""
    m, n, k = problem.m, problem.n, problem.k
    rows, columns = min(m, _PANELS * buffers.rows), min(n, _GROUPS * buffers.columns)
    depth = min(k, _DEPTHS * buffers.depth)
    if (rows, columns, depth) == (m, n, k):
        return problem, 1.0
    some = replace(problem, m=rows, n=columns, k=depth)
    return some, m / rows * (n / columns) * (k / depth)


def _time_parts(
    problem: PanelProblem,
    parts: list[Part],
    rates: Rates,
    slots: int,
    spans: list[Spans] | None,
) -> float:
    """Predicted seconds from the call to the end of the last copy out, with `slots` panels."""
    k, item_bytes, resident = problem.k, problem.item_bytes, problem.b_resident
    in_seconds = item_bytes / rates.in_bytes_per_second  # of an element, as those below
    out_seconds = item_bytes / rates.out_bytes_per_second
    add_seconds = 2 * item_bytes / rates.memory_bytes_per_second
    peers, own_share = rates.peers, 1 / (1 + rates.peers)
    peer_seconds = item_bytes / rates.peer_bytes_per_second
    # Rows shorter than a page share it, and its cost.
    row_seconds = rates.row_seconds * min(1.0, k * item_bytes / PAGE_BYTES)
    step_seconds, call_seconds, duplex = rates.step_seconds, rates.call_seconds, rates.duplex - 1
    kernels: dict[tuple[int, int, int], float] = {}
    computed_panels: list[float] = []
    stored_panels: list[float] = []
    loaded = passed = computed = stored = busy = call_seconds
    # Conditions where `max` and `min` would be shorter: those take a third of a new shape's time.
    for index, (some_rows, some_columns, some_depth, copied, begins_b) in enumerate(parts):
        rows, columns, depth = size = len(some_rows), len(some_columns), len(some_depth)
        a_depth = len(copied)
        begins_c, ends_c = some_depth.start == 0, some_depth.stop == k
        ready = call_seconds + index * step_seconds
        start = loaded if loaded > ready else ready
        if begins_c and len(stored_panels) >= slots:
            start = max(start, computed_panels[-slots])
            computed = max(computed, stored_panels[-slots])
        b_items = depth * columns if begins_b and not resident else 0
        loaded = start + step_seconds + (rows * a_depth + b_items * own_share) * in_seconds
        if 0 < a_depth < k:
            loaded += rows * row_seconds
        # While copies out are under way, both take longer.
        together = (stored if stored < loaded else loaded) - (busy if busy > start else start)
        if together > 0:
            loaded, stored = loaded + duplex * together, stored + duplex * together
        passed = max(loaded, passed) + b_items * (1 - own_share) * peer_seconds if peers else loaded
        if size not in kernels:
            kernels[size] = rates.find_kernel_seconds(problem, rows, columns, depth)
        launched = computed if computed > passed else passed
        computed = launched + kernels[size]
        if not begins_c:  # C is read and written once more
            computed += rows * columns * add_seconds
        if ends_c:
            if computed > stored:  # until then there was no copy out
                busy = stored = computed
            begun, stored = stored, stored + step_seconds + rows * columns * out_seconds
            computed_panels.append(computed)
            stored_panels.append(stored)
        if spans is not None:
            out = (begun, stored) if ends_c else None
            spans.append(Spans(parts[index], (start, loaded), (launched, computed), out))
    return stored


def list_queues(problem: PanelProblem, rows: int, rates: Rates) -> dict[str, float]:
    """The least seconds of each queue for a product's first `rows` rows, however they are cut."""
    item_bytes, k, n = problem.item_bytes, problem.k, problem.n
    b_rows = 0.0 if problem.b_resident else n / (1 + rates.peers)
    waves = problem.find_waves(rows, n, k)
    if problem.stream_k_short:  # launches of less than one wave fill it
        waves = min(waves, problem.count_tiles(rows) / problem.slots)
    return {
        "kernels": waves * rates.find_wave_seconds(k),
        "copies in": (rows + b_rows) * k * item_bytes / rates.in_bytes_per_second,
        "copies out": rows * n * item_bytes / rates.out_bytes_per_second,
    }


def find_bound(problem: PanelProblem, rows: int, rates: Rates) -> float:
    """A lower bound of the seconds of a product's first `rows` rows: its longest queue."""
    return rates.call_seconds + max(list_queues(problem, rows, rates).values())


def list_cuts(problem: PanelProblem, rates: Rates) -> Iterator[Cut]:
    """All cuts that are tried: by number of panels, with and without parts of K in the first.

    Parts of K let kernels start sooner. But copies of parts of A's rows are slower than those of
    whole rows, and where copies and kernels take about as long, that shows.
    """
    m, k = problem.m, problem.k
    if problem.is_straight:
        yield take_whole(problem)
        return
    # All rows in one panel are not rounded to whole waves.
    sizes = {one: _round_rows(problem, divide_up(m, one)) if one > 1 else m for one in PANELS}
    for rows in dict.fromkeys(sizes.values()):
        yield Cut(first_rows=rows, panel_rows=rows, depth=k)
    depth = divide_up(k, DEPTH_PARTS * DEPTH_QUANTUM) * DEPTH_QUANTUM
    if k < LEAST_DEPTH or depth >= k or not problem.sums_in_parts:
        return
    high, high_after_a = (_find_height(problem, rates, a_first=one) for one in (False, True))
    cuts = dict[Cut, None]()
    for count, rows in sizes.items():
        a_first = count in A_FIRST_PANELS and not problem.b_resident
        first_rows = m if rows >= m else min(m, high_after_a if a_first else high)
        cuts[Cut(first_rows, rows, depth, a_first)] = None
    yield from cuts


def _find_height(problem: PanelProblem, rates: Rates, *, a_first: bool) -> int:
    """Height of a first panel that keeps the GPU busy while B arrives; at most M / 2.

    Its A arrives meanwhile, unless that came first.
    """
    copy_seconds = problem.k * problem.item_bytes / rates.in_bytes_per_second  # of a row of A
    wave_rows = problem.slots / problem.tiles_per_tile_row * problem.tile_m
    row_seconds = rates.find_wave_seconds(problem.k) / wave_rows
    if not a_first:
        row_seconds -= copy_seconds
    high = problem.n * copy_seconds / row_seconds if row_seconds > 0 else inf
    return max(1, int(min(high, problem.m / 2) / problem.tile_m)) * problem.tile_m


def _round_rows(problem: PanelProblem, rows: int) -> int:
    """`rows` rounded to what whole waves hold, or if that is too coarse to rows of tiles."""
    tile_m = problem.tile_m
    waves = rows / tile_m * problem.tiles_per_tile_row / problem.slots
    if waves <= _NEAR:
        return min(problem.m, max(1, round(rows / tile_m)) * tile_m)
    near = (problem.find_rows_in_waves(int(waves) + more) for more in (0, 1))
    return min(problem.m, max(tile_m, min(near, key=lambda some: abs(some - rows))))
