"""Who computes how many rows: the split that finishes first."""

import math
from collections.abc import Sequence

from wavetrim.scheduler.model.cost import CostCurve, rows_within


def split_rows(m: int, curves: Sequence[CostCurve]) -> tuple[int, ...]:
    """Divide `m` rows over devices so that the last one to finish finishes as early as possible.

    The answer is exact for any non-decreasing curves. The smallest feasible time T is a value
    that some curve takes, T being feasible when the rows that all devices finish within T reach
    `m`; on each curve the least such value is found by bisection over its rows. Two devices need
    one bisection: where they end at the same time. The devices then
    take, in order, all that they finish within T, so among equally fast splits the one that
    leaves the fewest rows to the last device (the CPU, hence the smallest F) is returned.

    Args:
        m: Rows to divide, at least 0.
        curves: One curve a device, at least one; GPUs first, the CPU last.

    Returns:
        Rows for each device, in the order of `curves`; they add up to `m`.
    """
    if len(curves) == 2:
        best = _find_meeting(m, *curves)
    else:
        best = math.inf
        for curve in curves:
            best = min(best, _find_least_feasible(m, curve, curves, best))
    shares = []
    rest = m
    for curve in curves:
        share = rows_within(curve, best, rest)
        shares.append(share)
        rest -= share
    assert rest == 0, "the chosen time is feasible, so no row is left"
    return tuple(shares)


def _find_meeting(m: int, first: CostCurve, second: CostCurve) -> float:
    """The least time of two devices: where the one curve falls below the other, or just before."""
    before, after = -1, m
    while after - before > 1:
        middle = (before + after) // 2
        if second.seconds(middle) >= first.seconds(m - middle):
            after = middle
        else:
            before = middle
    if before < 0:
        return max(first.seconds(m), second.seconds(0))
    at = max(first.seconds(m - after), second.seconds(after))
    return min(at, first.seconds(m - before))


def _find_least_feasible(
    m: int, curve: CostCurve, curves: Sequence[CostCurve], bound: float
) -> float:
    """The least value of `curve` within which all of `curves` finish `m` rows together.

    Only values below `bound` are looked for: infinity when there is none.
    """
    infeasible, feasible = -1, rows_within(curve, math.nextafter(bound, 0.0), m)
    if not _is_feasible(m, curves, curve.seconds(feasible)):
        return math.inf
    while feasible - infeasible > 1:
        middle = (infeasible + feasible) // 2
        if _is_feasible(m, curves, curve.seconds(middle)):
            feasible = middle
        else:
            infeasible = middle
    return curve.seconds(feasible)


def _is_feasible(m: int, curves: Sequence[CostCurve], seconds: float) -> bool:
    """Whether the devices finish `m` rows together within `seconds`."""
    rest = m
    for curve in curves:
        if rest == 0:
            break
        rest -= rows_within(curve, seconds, rest)
    return rest == 0
