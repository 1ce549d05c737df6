"""The fastest cut of a product: a dozen cuts, each timed by the recurrence.

Kernels need B and rows of A, and only computed rows can be copied out. So a cut decides how soon
the first kernel starts, and into how many panels the rest is divided. No rule here knows a machine:
`timeline` gives the time of each cut at the machine's rates.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from math import inf
from typing import Final, NamedTuple

from wavetrim.kernels.schedule.buffers import Buffers, fit_buffers
from wavetrim.kernels.schedule.panels import PanelProblem, divide_up
from wavetrim.kernels.schedule.steps import DEPTH_QUANTUM, Cut, list_parts
from wavetrim.kernels.schedule.timeline import Rates, Spans, time_parts

PANELS: Final = (2, 4, 8, 16, 32)
"""Numbers of panels that are tried, apart from one panel. Few are chosen: each is timed for each
new shape."""

DEPTH_PARTS: Final = 6
LEAST_DEPTH: Final = 128
"""Parts of K in which the first panel is computed while B arrives, and the least K that is cut.
Chosen."""

_NEAR: Final = 0.7
"""A panel of more than this share of a wave is rounded to whole waves; chosen."""

_PANELS, _GROUPS, _DEPTHS = 64, 2, 16
"""Most panels, groups of columns and parts of K that are timed. A product with more repeats them:
its time is a multiple of theirs. Chosen."""


class Timed(NamedTuple):
    """A cut and the seconds of its parts."""

    seconds: float
    cut: Cut


@lru_cache(maxsize=4096)
def find_fastest(problem: PanelProblem, rates: Rates, gpu_memory_bytes: int) -> Timed:
    """The fastest cut of the family that fits the memory.

    Raises:
        OperandError: Not even one tile fits; the message names the smallest `gpu_memory_bytes`.
    """
    return min(
        Timed(time_cut(problem, cut, rates, gpu_memory_bytes), cut)
        for cut in list_cuts(problem, rates)
    )


def time_cut(
    problem: PanelProblem,
    cut: Cut,
    rates: Rates,
    gpu_memory_bytes: int,
    spans: list[Spans] | None = None,
) -> float:
    """Seconds of a product by one cut. If it has very many parts, some are timed and multiplied.

    Args:
        problem: The product.
        cut: How it is cut.
        rates: The rates of the machine.
        gpu_memory_bytes: Device memory for buffers.
        spans: Receives when each part is at work, or some of very many.
    """
    buffers = fit_buffers(problem, cut.panel_rows, cut.first_rows, gpu_memory_bytes)
    some, times = _take_some(problem, buffers)
    return times * time_parts(some, list_parts(some, cut, buffers), rates, buffers.a_slots, spans)


def _take_some(problem: PanelProblem, buffers: Buffers) -> tuple[PanelProblem, float]:
    """A part of a product with very many parts, and the whole as a multiple of it."""
    m, n, k = problem.m, problem.n, problem.k
    rows, columns, depth = (
        min(m, _PANELS * buffers.rows),
        min(n, _GROUPS * buffers.columns),
        min(k, _DEPTHS * buffers.depth),
    )
    if (rows, columns, depth) == (m, n, k):
        return problem, 1.0
    some = replace(problem, m=rows, n=columns, k=depth)
    return some, m / rows * (n / columns) * (k / depth)


def find_bound(problem: PanelProblem, rows: int, rates: Rates) -> float:
    """Seconds of the longest queue of a product's first `rows` rows: a lower bound for all cuts."""
    item_bytes, k, n = problem.item_bytes, problem.k, problem.n
    b_rows = 0.0 if problem.b_resident else n / (1 + rates.peers)
    waves = problem.find_waves(rows, n, k)
    if problem.stream_k_short:  # of several launches, each of less than one wave, all may be full
        waves = min(waves, problem.count_tiles(rows) / problem.slots)
    return rates.call_seconds + max(
        waves * (rates.wave_seconds + k * rates.depth_seconds),
        (rows + b_rows) * k * item_bytes / rates.in_bytes_per_second,
        rows * n * item_bytes / rates.out_bytes_per_second,
    )


def list_cuts(problem: PanelProblem, rates: Rates) -> Iterator[Cut]:
    """All cuts that are tried: some numbers of panels, with and without parts of K in the first."""
    m, k = problem.m, problem.k
    if problem.is_straight:
        yield Cut(first_rows=m, panel_rows=m, depth=k)
        return
    # All rows in one panel are not rounded to whole waves.
    sizes = list(dict.fromkeys([m, *(_round_rows(problem, divide_up(m, one)) for one in PANELS)]))
    for rows in sizes:
        yield Cut(first_rows=rows, panel_rows=rows, depth=k)
    depth = divide_up(k, DEPTH_PARTS * DEPTH_QUANTUM) * DEPTH_QUANTUM
    if k < LEAST_DEPTH or depth >= k or not problem.sums_in_parts:
        return
    high = _find_height(problem, rates)
    for rows in sizes:
        yield Cut(first_rows=m if rows >= m else min(m, high), panel_rows=rows, depth=depth)


def _find_height(problem: PanelProblem, rates: Rates) -> int:
    """Rows that the GPU computes while B and their A arrive; at most half of all."""
    copy_seconds = problem.k * problem.item_bytes / rates.in_bytes_per_second  # of a row of A
    wave_rows = problem.slots / problem.tiles_per_tile_row * problem.tile_m
    wave_seconds = rates.wave_seconds + problem.k * rates.depth_seconds
    row_seconds = wave_seconds / wave_rows - copy_seconds
    high = problem.n * copy_seconds / row_seconds if row_seconds > 0 else inf
    return max(1, int(min(high, problem.m / 2) / problem.tile_m)) * problem.tile_m


def _round_rows(problem: PanelProblem, rows: int) -> int:
    """`rows` rounded to whole waves, or to rows of tiles if that is less than a wave; at most M."""
    wave_rows, tile_m = problem.wave_rows, problem.tile_m
    quantum = wave_rows if rows > _NEAR * wave_rows else tile_m
    return min(problem.m, max(1, round(rows / quantum)) * quantum)
