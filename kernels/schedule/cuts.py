"""The fastest cut of a product: a small family of cuts, each timed by the recurrence.

Kernels need B and rows of A, and only computed rows can be copied out. So a cut decides how soon
the first kernel starts (the prologue), into how many panels the rest is divided, and how little is
left to copy out after the last kernel (the drain). No rule here knows a machine: the recurrence
(`schedule`) gives the time of each cut at the machine's rates. The candidates below are chosen:
few, because each is timed for each new shape, and so apart by factors.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache, partial
from math import inf
from typing import Final

from wavetrim.kernels.schedule.panels import PanelProblem, round_to_waves
from wavetrim.kernels.schedule.schedule import Rates, find_seconds
from wavetrim.kernels.schedule.steps import DEPTH_QUANTUM, Cut, StepPlan, cut_steps

PANELS: Final = (2, 4, 8, 16, 32)
"""Candidates: approximate number of panels."""

DRAINS: Final = (1, 2, 4, 16)
"""Candidates: rows of an ordinary panel divided by those of the last."""

DEPTH_STEPS: Final = (3, 6, 12)
"""Candidates: steps of the prologue along K while B arrives."""

WIDTHS: Final = (1.0, 0.7, 0.5)
"""Candidates: share of B's columns for which the prologue goes along K."""

COLUMN_PARTS: Final = (2, 4)
"""Candidates: parts of B's columns that a prologue takes in turn, each over all of K."""

_USUAL_PANELS, _USUAL_DRAIN, _USUAL_DEPTH_STEPS = 16, 4, 6
"""Panels, drain and steps along K with which prologues are compared, before these are varied."""

_NEAR: Final = (0.7, 1.4)
"""Least and largest factor on a panel's wanted size, to fill its waves; chosen."""


@lru_cache(maxsize=256)
def plan_steps(problem: PanelProblem, rates: Rates, gpu_memory_bytes: int) -> StepPlan:
    """The steps of a product by the fastest cut of the family that fits the memory.

    First the prologue is chosen, with panels of a usual size. Then the number of panels, the drain
    and the prologue's steps along K are varied in turn.

    Raises:
        OperandError: Not even one tile fits; the message names the smallest `gpu_memory_bytes`.
    """
    best = cut_steps(problem, take_whole(problem), gpu_memory_bytes)
    best_seconds = find_seconds(problem, best.steps, rates, inf)
    prologues, timed = partial(_list_prologues, rates), {best.cut}
    for vary in (prologues, _vary_panels, _vary_drain, _vary_depth):
        for cut in vary(problem, best.cut):
            if cut in timed:
                continue
            timed.add(cut)
            plan = cut_steps(problem, cut, gpu_memory_bytes)
            seconds = find_seconds(problem, plan.steps, rates, best_seconds)
            if seconds < best_seconds:
                best, best_seconds = plan, seconds
    return best


def take_whole(problem: PanelProblem) -> Cut:
    """The cut with a single step."""
    m, n, k = problem.m, problem.n, problem.k
    return Cut(
        first_rows=m, panel_rows=m, last_rows=m, depth=k, a_depth=k, columns=n, rest_columns=n
    )


def _list_prologues(rates: Rates, problem: PanelProblem, whole: Cut) -> Iterator[Cut]:
    """Candidate prologues: wait for all of B, go along K in steps, or go through columns of B."""
    m, n, k = problem.m, problem.n, problem.k
    rows = _round_rows(problem, m / _USUAL_PANELS)
    last_rows = min(rows, _round_tiles(problem, rows / _USUAL_DRAIN))
    plain = whole._replace(first_rows=rows, panel_rows=rows, last_rows=last_rows)
    yield plain
    yield from _vary_panels(problem, plain)
    depth = _find_depth(problem, _USUAL_DEPTH_STEPS)
    for share in WIDTHS if depth < k else ():
        columns = _round_columns(problem, share * n)
        if columns < n and (problem.split_item_bytes or problem.staged):
            continue  # kernels with splits, and staged copies, take all columns of B
        rest = _round_columns(problem, max(1, n - columns) / 2)
        for first_rows in _list_heights(problem, rates, columns):
            cut = plain._replace(
                first_rows=first_rows, depth=depth, a_depth=depth,
                columns=columns, rest_columns=rest,
            )  # fmt: skip
            yield cut
            if columns == n:  # then all copies are of whole rows
                yield cut._replace(a_depth=k)
    # Not from pageable memory, where parts of rows are slow: 5 to 40% longer on an H200.
    for count in COLUMN_PARTS if not (problem.split_item_bytes or problem.staged) else ():
        columns = _round_columns(problem, n / count)
        for first_rows in sorted({m, rows}) if columns < n else ():
            yield plain._replace(first_rows=first_rows, columns=columns, rest_columns=columns)


def _vary_panels(problem: PanelProblem, cut: Cut) -> Iterator[Cut]:
    """Other numbers of panels, each of whole waves or of a part of one."""
    plain = cut.first_rows == cut.panel_rows
    for rows in sorted({_round_rows(problem, problem.m / count) for count in PANELS}):
        if rows < problem.m and rows != cut.panel_rows:
            last_rows = min(rows, _round_tiles(problem, rows / _USUAL_DRAIN))
            first_rows = rows if plain else cut.first_rows
            yield cut._replace(first_rows=first_rows, panel_rows=rows, last_rows=last_rows)


def _vary_drain(problem: PanelProblem, cut: Cut) -> Iterator[Cut]:
    """Other sizes of the last panel."""
    for smaller in DRAINS:
        last_rows = _round_tiles(problem, cut.panel_rows / smaller)
        yield cut._replace(last_rows=min(cut.panel_rows, last_rows))


def _vary_depth(problem: PanelProblem, cut: Cut) -> Iterator[Cut]:
    """Other numbers of steps of the prologue along K, and of its copies of A."""
    if cut.depth < problem.k:
        for count in DEPTH_STEPS:
            depth = min(problem.k, _find_depth(problem, count))
            for a_depth in sorted({depth, problem.k}):
                yield cut._replace(depth=depth, a_depth=a_depth)


def _find_depth(problem: PanelProblem, count: int) -> int:
    """The part of K that each of about `count` steps takes."""
    if not problem.sums_in_parts:
        return problem.k
    return -(-problem.k // (count * DEPTH_QUANTUM)) * DEPTH_QUANTUM


def _list_heights(problem: PanelProblem, rates: Rates, columns: int) -> list[int]:
    """Candidate rows of a first panel that goes along K with this many columns.

    All rows; the rows whose part in these columns is half of C; and those for which kernels take as
    long as copying in the columns of B and the rows of A.
    """
    m, k = problem.m, problem.k
    some = replace(problem, n=columns)
    copy_seconds = k * problem.item_bytes / rates.in_bytes_per_second
    wave_seconds = rates.wave_seconds + k * rates.depth_seconds
    row_seconds = wave_seconds / some.wave_rows - copy_seconds
    half = _round_rows(some, m * problem.n / columns / 2)
    heights = {m, min(m, half)}
    if row_seconds * m > columns * copy_seconds:
        heights.add(min(m, _round_rows(some, columns * copy_seconds / row_seconds)))
    return sorted(heights)


def _round_rows(problem: PanelProblem, rows: float) -> int:
    """About this many rows, in whole waves if these are near."""
    return round_to_waves(problem, max(1, round(rows)), _NEAR)


def _round_tiles(problem: PanelProblem, rows: float) -> int:
    return max(1, round(rows / problem.tile_m)) * problem.tile_m


def _round_columns(problem: PanelProblem, columns: float) -> int:
    """About this many columns: all, or whole tiles."""
    tile_n = problem.tile_n
    rounded = max(1, round(columns / tile_n)) * tile_n
    return rounded if rounded + tile_n <= problem.n else problem.n
