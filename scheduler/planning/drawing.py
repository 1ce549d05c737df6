"""What drawings show of a plan: predicted seconds over F, and when each queue is at work. Pure."""

from bisect import bisect_right
from math import ceil
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from wavetrim.kernels.schedule.panels import divide_up
from wavetrim.scheduler.planning.cpu_rows import find_cpu_seconds
from wavetrim.scheduler.planning.gpu_rows import GpuPart

if TYPE_CHECKING:
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

Work: TypeAlias = Literal["copy in", "kernel", "copy out", "cpu"]
"""What a queue does."""

GPU_WORK: Final[tuple[Work, ...]] = ("copy in", "kernel", "copy out")
"""What the queues of a GPU do, in their order."""

MOST_SPANS: Final = 400
"""Most spans of a merged queue; chosen, as a drawing shows no more."""

_CLOSE: Final = 1e-3
"""Spans closer than this share of the plan's time are merged; chosen."""


def describe_curve(plan: "Plan") -> list[dict[str, Any]]:
    """Predicted seconds over F, dense near the split, with both ends of each wave.

    Of more waves than points, some have theirs.

    Returns:
        Points `{f, gpu_seconds, cpu_seconds, total_seconds}` by rising F, among them F = M, the
        plan's F, and F = 0 if a GPU can compute the product.
    """
    m, near = plan.problem.m, find_near_f(plan)
    if plan.side is None:
        return [_describe_point(plan, m)]
    points = {0, plan.f, m}
    for first, last, fewer in ((0, near, 1), (near, m, 2)):
        samples = _SAMPLES // fewer
        points.update(first + (last - first) * sample // samples for sample in range(samples))
        for f in list_edges(plan, first, last, most=_EDGES // fewer):
            points.update((max(0, f - 1), f))
    return [_describe_point(plan, f) for f in sorted(points)]


def find_near_f(plan: "Plan") -> int:
    """The largest F that is near the split: beyond it one part is much longer than the other."""
    problem, m = plan.problem, plan.problem.m
    if plan.side is None:
        return m
    limit = _SLOWER * plan.on_gpu.uncorrected.gpu_seconds

    def find_seconds(f: int) -> float:
        return find_cpu_seconds(problem, plan.profile.cpu, f, beside_gpu=True)

    meeting = bisect_right(range(1, m + 1), limit, key=find_seconds)
    return min(m, max(_LEAST_NEAR, ceil(_BEYOND_MEETING * meeting), ceil(_BEYOND_F * plan.f)))


def list_edges(plan: "Plan", first: int, last: int, *, most: int) -> list[int]:
    """The values of F in first…last from which on the GPUs need a wave less, at most `most`.

    Of more waves those at even distances: a product may have very many.
    """
    side, m = plan.side, plan.problem.m
    assert side is not None, "only a GPU has waves"
    problem, parts = side.members[0].problem, 1 if side.divides_columns else len(side.members)
    least, all_waves = (problem.count_waves(divide_up(m - f, parts)) for f in (last, first))
    count = all_waves + 1 - least
    some = min(most, count)
    waves = (least + number * count // some for number in range(some))
    edges = {m - min(m, parts * problem.find_rows_in_waves(wave)) for wave in waves}
    return sorted(f for f in edges if first <= f <= last)


def _describe_point(plan: "Plan", f: int) -> dict[str, Any]:
    return {"f": f, **plan.predict(f).describe()}


def describe_schedule(plan: "Plan") -> list[dict[str, Any]]:
    """When the three queues of each GPU that has rows are at work, and the CPU.

    They come from the list of parts that is priced and runs; of very many parts, from some.

    Returns:
        Queues `{device, queue, spans}` in the order of the rows. A span has begin and end in
        seconds from the call, and the part of C and of K that it is for: None for several parts.
    """
    queues: list[tuple[str, Work, list[dict[str, Any]]]] = []
    for part in plan.gpu_parts:
        device = f"cuda:{plan.profile.gpus[part.position].index}"
        spans = _list_gpu_spans(part, plan.kinds[0].factor.reported)
        queues += [(device, work, spans[work]) for work in GPU_WORK]
    if plan.f:
        m, n, k = plan.problem.m, plan.problem.n, plan.problem.k
        rows, seconds = range(plan.gpu_rows, m), plan.predicted.cpu_seconds
        queues.append(("cpu", "cpu", [_describe_span(0.0, seconds, rows, range(n), k)]))
    gap_seconds = _CLOSE * plan.predicted.total_seconds
    return [
        {"device": device, "queue": work, "spans": _merge_close(spans, gap_seconds)}
        for device, work, spans in queues
    ]


def _list_gpu_spans(part: GpuPart, factor: float) -> dict[Work, list[dict[str, Any]]]:
    """The spans of each queue of a GPU, their seconds times a factor."""
    spans: dict[Work, list[dict[str, Any]]] = {work: [] for work in GPU_WORK}
    traced = part.trace()
    factor *= part.seconds / max(one.copy_out[1] for one in traced if one.copy_out)
    row, column = part.rows.start, part.columns.start  # those of a step count from the part's
    for one in traced:
        part_rows, part_columns, depth, *_ = one.part
        rows = range(row + part_rows.start, row + part_rows.stop)
        columns = range(column + part_columns.start, column + part_columns.stop)
        for work, time in zip(GPU_WORK, (one.copy_in, one.kernel, one.copy_out), strict=True):
            if time is not None:
                begin, end = (factor * seconds for seconds in time)
                spans[work].append(_describe_span(begin, end, rows, columns, len(depth)))
    return spans


def _describe_span(
    begin: float, end: float, rows: range, columns: range, depth: int
) -> dict[str, Any]:
    return {
        "begin_seconds": begin,
        "end_seconds": end,
        **describe_ranges(rows, columns),
        "depth": depth,
    }


def describe_ranges(rows: range, columns: range) -> dict[str, int]:
    """A part of C, ready for JSON."""
    return {
        "first_row": rows.start,
        "rows": len(rows),
        "first_column": columns.start,
        "columns": len(columns),
    }


def _merge_close(spans: list[dict[str, Any]], gap_seconds: float) -> list[dict[str, Any]]:
    """At most `MOST_SPANS` spans: of more, those that are close to each other are merged."""
    while len(spans) > MOST_SPANS:
        merged: list[dict[str, Any]] = []
        for span in spans:
            if merged and span["begin_seconds"] - merged[-1]["end_seconds"] < gap_seconds:
                begin, end = merged[-1]["begin_seconds"], span["end_seconds"]
                merged[-1] = dict.fromkeys(span) | {"begin_seconds": begin, "end_seconds": end}
            else:
                merged.append(span)
        spans, gap_seconds = merged, 2 * gap_seconds
    return spans
