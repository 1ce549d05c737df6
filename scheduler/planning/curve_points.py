"""Predicted seconds over F: at which F, and how many points."""

from collections.abc import Iterable
from math import ceil
from typing import Any, Final

from wavetrim.scheduler.model.cost import rows_within
from wavetrim.scheduler.model.waves import divide_up
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.planning.team import list_members

_POINTS: Final = 512
"""Most points of a curve; chosen."""

_NEIGHBOURS: Final = 32
"""Values of F on each side of the plan's; chosen."""

_SAMPLES: Final = 128
_EDGES: Final = 160
"""Even samples, and edges of waves, near the split in a curve that is drawn, and half as many
beyond; chosen."""

_LEAST_NEAR: Final = 16
_SLOWER: Final = 1.1
_BEYOND_MEETING: Final = 1.35
_BEYOND_F: Final = 1.25
"""What is near the split: at least so many rows, so far beyond the F with which the CPU takes that
much longer than the GPUs alone, and so far beyond the plan's F. Chosen: a plot shows both parts."""


def describe_curve(plan: Plan) -> list[dict[str, Any]]:
    """Predicted seconds over F, at wave boundaries, thinned evenly, and around the plan's F.

    Returns:
        Points `{f, gpu_seconds, cpu_seconds, total_seconds}` by rising F, among them F = M, the
        plan's F, and F = 0 if a GPU can compute the product.
    """
    if plan.gpu_curve is None:
        return [_describe_point(plan, plan.problem.m)]
    points = {0, plan.f, plan.problem.m} | _list_neighbours(plan)
    points.update(_list_edges(plan, 0, plan.problem.m, most=_POINTS - len(points)))
    return [_describe_point(plan, f) for f in sorted(points)]


def describe_drawn_curve(plan: Plan) -> list[dict[str, Any]]:
    """The same for a drawing: dense near the split, with both ends of each step of the staircase.

    Where there are more waves than points, the edges of some.
    """
    m, near = plan.problem.m, find_near_f(plan)
    if plan.gpu_curve is None:
        return [_describe_point(plan, m)]
    points = {0, plan.f, m}
    for first, last, fewer in ((0, near, 1), (near, m, 2)):
        samples = _SAMPLES // fewer
        points.update(first + (last - first) * sample // samples for sample in range(samples))
        for f in _list_edges(plan, first, last, most=_EDGES // fewer):
            points.update((max(0, f - 1), f))
    return [_describe_point(plan, f) for f in sorted(points)]


def find_near_f(plan: Plan) -> int:
    """The largest F that is near the split: beyond it one part is much longer than the other."""
    m, side = plan.problem.m, plan.gpu_alone_curve
    if side is None:
        return m
    meeting = rows_within(plan.cpu_curve, _SLOWER * side.seconds(m), m)
    return min(m, max(_LEAST_NEAR, ceil(_BEYOND_MEETING * meeting), ceil(_BEYOND_F * plan.f)))


def _describe_point(plan: Plan, f: int) -> dict[str, Any]:
    predicted = plan.predict(f)
    return {
        "f": f,
        "gpu_seconds": predicted.gpu_seconds,
        "cpu_seconds": predicted.cpu_seconds,
        "total_seconds": predicted.total_seconds,
    }


def _list_edges(plan: Plan, first: int, last: int, *, most: int) -> Iterable[int]:
    """At most `most` values of F in first…last, each the least that saves a number of waves."""
    assert plan.gpu_curve is not None, "only a GPU has waves"
    members, m = list_members(plan.gpu_curve), plan.problem.m
    grid, parts = members[0].grid, 1 if plan.divides_columns else len(members)
    fewest, waves = (grid.count_waves(divide_up(m - f, parts)) for f in (last, first))
    numbers = range(max(1, fewest), waves)
    some = min(most, len(numbers))
    for number in range(some):
        yield m - min(m, parts * grid.rows_in_waves(numbers[number * len(numbers) // some]))


def _list_neighbours(plan: Plan) -> set[int]:
    """Values of F around the plan's, in steps of about a thousandth of M."""
    m, f = plan.problem.m, plan.f
    step = max(1, m // 1024)
    around = range(f - _NEIGHBOURS * step, f + _NEIGHBOURS * step + 1, step)
    return {value for value in around if 0 <= value <= m}
