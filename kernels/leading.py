"""The first panel: what of C is computed while B arrives."""

from dataclasses import replace

from wavetrim.kernels.feeding import (
    Lead,
    choose_square,
    comes_in_longer,
    count_feeding_rows,
    count_most_leading,
    leads_columns,
)
from wavetrim.kernels.panels import CLOSE, PanelProblem, choose_panel_rows, round_to_waves


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
    n, k = problem.n, problem.k
    most = problem.likely_rows
    if problem.staged or not comes_in_longer(problem.m, n, k):
        most = choose_panel_rows(problem)
    tile_rows = -(-k // problem.tile_m)
    width = -(-problem.tiles_per_tile_row // problem.leading_parts) * problem.tile_n
    return Lead(min(most, tile_rows * problem.tile_m), min(n, width))


def _leads_columns(problem: PanelProblem) -> bool:
    """Whether the first panel begins with some of B's columns, and takes K in steps."""
    if problem.split_item_bytes or problem.item_bytes == 2 or problem.staged:
        return False
    return leads_columns(problem.n, problem.item_bytes, problem.gpu_share)


def _lead_some_columns(problem: PanelProblem) -> Lead:
    """The square whose rows fill their waves."""
    rows, n, tile_n = problem.likely_rows, problem.n, problem.tile_n
    square = choose_square(rows, n, problem.k, problem.item_bytes, problem.gpu_share, tile_n=tile_n)
    some = replace(problem, n=square.columns)
    return Lead(min(rows, round_to_waves(some, square.rows, CLOSE)), square.columns)
