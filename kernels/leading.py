"""The first panel: what of C is computed while B arrives."""

from dataclasses import dataclass, replace
from math import sqrt

from kernels.feeding import (
    LEADING_SHARE,
    count_feeding_columns,
    count_feeding_rows,
    count_most_leading,
    find_quantum,
    leads_columns,
)
from kernels.panels import CLOSE, PanelProblem, choose_panel_rows, round_to_waves


@dataclass(frozen=True, slots=True)
class Lead:
    """What the first steps compute.

    Attributes:
        rows: Rows of the first panel.
        columns: Columns of B that come first; the panel's other columns follow.
    """

    rows: int
    columns: int


def choose_lead(problem: PanelProblem) -> Lead:
    """The first panel, and the columns for which it goes through K in steps as B arrives.

    All rows where they are few; never so many that C's part is longer than B, because then
    copying C out is what takes long. No more than in other panels where A is what comes in.
    """
    n, k, item_bytes, gpu_share = problem.n, problem.k, problem.item_bytes, problem.gpu_share
    if problem.streams_a:
        return Lead(choose_panel_rows(problem), n)
    if problem.leading_parts > 1:
        return _lead_by_columns(problem)
    rows = problem.likely_rows
    wanted = count_feeding_rows(n, k, item_bytes, gpu_share)
    if 2 * rows <= wanted or problem.goes_deep:
        return Lead(rows, n)
    if _leads_columns(problem):
        return _lead_some_columns(problem)
    most = count_most_leading(rows, k, item_bytes, gpu_share)
    return Lead(min(rows, round_to_waves(problem, min(wanted, most), CLOSE)), n)


def _lead_by_columns(problem: PanelProblem) -> Lead:
    """While some columns of C leave, others of B arrive: as long as that takes, all rows may lead.

    Where C is what takes long, it should begin to leave soon.
    """
    m, n, k = problem.m, problem.n, problem.k
    comes_in = m * n < k * (m + n)
    most = problem.likely_rows
    if problem.staged or not comes_in:
        most = choose_panel_rows(problem)
    tile_rows = -(-k // problem.tile_m)
    width = -(-problem.tiles_per_tile_row // problem.leading_parts) * problem.tile_n
    return Lead(min(most, tile_rows * problem.tile_m), min(n, width))


def _leads_columns(problem: PanelProblem) -> bool:
    """Whether the first panel begins with some of B's columns, and takes K in steps."""
    n, item_bytes = problem.n, problem.item_bytes
    if problem.split_item_bytes or item_bytes == 2 or problem.staged:
        return False
    return n >= 4 * find_quantum(n, item_bytes) and leads_columns(n, item_bytes, problem.gpu_share)


def _lead_some_columns(problem: PanelProblem) -> Lead:
    """About a square, of at most a share of C: the kernels want work left while it leaves."""
    n, k, item_bytes, gpu_share = problem.n, problem.k, problem.item_bytes, problem.gpu_share
    rows = problem.likely_rows
    columns = count_feeding_columns(n, item_bytes, gpu_share)
    wanted = min(rows, count_feeding_rows(columns, k, item_bytes, gpu_share))
    most = LEADING_SHARE * rows * n
    scale = sqrt(min(1.0, most / (wanted * columns)))
    quantum = max(problem.tile_n, find_quantum(n, item_bytes))
    columns = min(n, max(1, round(scale * columns / quantum)) * quantum)
    wanted = max(1, min(wanted, int(most / columns)))
    some = replace(problem, n=columns)
    return Lead(min(rows, round_to_waves(some, wanted, CLOSE)), columns)
