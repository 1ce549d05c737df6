"""Predicted seconds over F: at which F, and how many points."""

from math import ceil
from typing import Any, Final

from wavetrim.kernels.schedule.panels import divide_up
from wavetrim.scheduler.planning.cpu_rows import find_cpu_seconds
from wavetrim.scheduler.planning.plan import Plan

_SAMPLES: Final = 48
_EDGES: Final = 48
"""Even samples, and edges of waves, near the split, and half as many beyond; chosen."""

_LEAST_NEAR: Final = 16
_SLOWER: Final = 1.1
_BEYOND_MEETING: Final = 1.35
_BEYOND_F: Final = 1.25
"""F is near the split up to the largest of _LEAST_NEAR rows, _BEYOND_F times the plan's F, and
_BEYOND_MEETING times the F with which the CPU takes _SLOWER times as long as the GPUs alone.
Chosen: a plot shows both parts."""


def describe_curve(plan: Plan) -> list[dict[str, Any]]:
    """Predicted seconds over F, dense near the split, with both ends of each wave.

    Of more waves than points, some have theirs.

    Returns:
        Points `{f, gpu_seconds, cpu_seconds, total_seconds}` by rising F, among them F = M, the
        plan's F, and F = 0 if a GPU can compute the product.
    """
    m, near = plan.problem.m, find_near_f(plan)
    if plan.times.alone is None:
        return [_describe_point(plan, m)]
    points = {0, plan.f, m}
    for first, last, fewer in ((0, near, 1), (near, m, 2)):
        samples = _SAMPLES // fewer
        points.update(first + (last - first) * sample // samples for sample in range(samples))
        for f in list_edges(plan, first, last, most=_EDGES // fewer):
            points.update((max(0, f - 1), f))
    return [_describe_point(plan, f) for f in sorted(points)]


def find_near_f(plan: Plan) -> int:
    """The largest F that is near the split: beyond it one part is much longer than the other."""
    m, times = plan.problem.m, plan.times
    if times.alone is None:
        return m
    limit = _SLOWER * times.price(0).gpu_seconds
    low, high = 0, m
    while low < high:
        middle = (low + high + 1) // 2
        if find_cpu_seconds(times.problem, times.cpu, middle, beside_gpu=True) <= limit:
            low = middle
        else:
            high = middle - 1
    return min(m, max(_LEAST_NEAR, ceil(_BEYOND_MEETING * low), ceil(_BEYOND_F * plan.f)))


def list_edges(plan: Plan, first: int, last: int, *, most: int) -> list[int]:
    """The values of F in first…last from which on the GPUs need a wave less, at most `most`.

    Of more waves those at even distances: a product may have very many.
    """
    side, m = plan.times.alone, plan.problem.m
    assert side is not None, "only a GPU has waves"
    problem, parts = side.members[0].problem, 1 if side.columns else len(side.members)
    least, all_waves = (problem.count_waves(divide_up(m - f, parts)) for f in (last, first))
    count = all_waves + 1 - least
    some = min(most, count)
    waves = (least + number * count // some for number in range(some))
    edges = {m - min(m, parts * problem.find_rows_in_waves(wave)) for wave in waves}
    return sorted(f for f in edges if first <= f <= last)


def _describe_point(plan: Plan, f: int) -> dict[str, Any]:
    predicted = plan.predict(f)
    return {
        "f": f,
        "gpu_seconds": predicted.gpu_seconds,
        "cpu_seconds": predicted.cpu_seconds,
        "total_seconds": predicted.total_seconds,
    }
