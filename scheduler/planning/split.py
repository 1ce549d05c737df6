"""The split that finishes first: the number of rows for each device, and what it must gain."""

import math
from collections.abc import Sequence
from typing import Final

from wavetrim.native.tuned import SPLIT_GAIN
from wavetrim.scheduler.model.cost import CostCurve, rows_within
from wavetrim.scheduler.problem import Memory

INTERVAL_SHARE: Final = 1e-6
"""Length of the interval that is left for exact searches, as a share of the time; chosen."""


def find_split_gain(memory: Memory) -> float:
    """Share of the better single device's time that a split must promise to save."""
    return SPLIT_GAIN * (2 if memory == "pageable" else 1)


def limit_split(alone_seconds: float, memory: Memory, further: int = 1) -> float:
    """Longest time with so many further devices, if the product takes `alone_seconds` without."""
    return alone_seconds * (1 - find_split_gain(memory)) ** further


def split_rows(m: int, curves: Sequence[CostCurve]) -> tuple[int, ...]:
    """Divide `m` rows among devices so that the last one finishes as early as possible.

    Exact for any non-decreasing curves. A time T is feasible if all devices together finish `m`
    rows within T. The least feasible T is a value of one of the curves. Two devices need a single
    bisection, for the rows with which they finish at the same time. For more, a bisection over time
    leaves a short interval, and bisections over the rows of each curve find the value there. Each
    device, in order, then takes all rows that it finishes within T. So of equally fast splits the
    one with the fewest rows for the last device, the CPU, is returned: the smallest F.

    Args:
        m: Rows to divide, at least 0.
        curves: A curve for each device, at least one; GPUs first, the CPU last.

    Returns:
        Rows for each device, in the order of `curves`; their sum is `m`.
    """
    if len(curves) == 2:
        best = _find_meeting(m, *curves)
    else:
        low, best = _find_interval(m, curves)
        for curve in curves:
            best = min(best, _find_least_feasible(m, curve, curves, low, best))
    shares = []
    rest = m
    for curve in curves:
        share = rows_within(curve, best, rest)
        shares.append(share)
        rest -= share
    assert rest == 0, "the chosen time is feasible, so no row is left"
    return tuple(shares)


def _find_meeting(m: int, first: CostCurve, second: CostCurve) -> float:
    """The least time of two devices: at the rows where their curves cross, or just before."""
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


def _find_interval(m: int, curves: Sequence[CostCurve]) -> tuple[float, float]:
    """A time that is not feasible, or 0, and one that is, about a millionth longer."""
    low, high = 0.0, min(curve.seconds(m) for curve in curves)
    while high - low > INTERVAL_SHARE * high:
        middle = (low + high) / 2
        if _is_feasible(m, curves, middle):
            high = middle
        else:
            low = middle
    return low, high


def _find_least_feasible(
    m: int, curve: CostCurve, curves: Sequence[CostCurve], low: float, bound: float
) -> float:
    """The least value of `curve` that is feasible for `curves` together.

    Infinity if no value between `low`, which is not feasible, and `bound` is.
    """
    infeasible = rows_within(curve, low, m) if low else -1
    feasible = rows_within(curve, math.nextafter(bound, 0.0), m)
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
