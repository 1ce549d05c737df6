"""What drawings show of a plan: predicted seconds over F, and when each queue is at work. Pure."""

from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from wavetrim.kernels.schedule.panels import Part, divide_up
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
    limit = _SLOWER * plan.give_cpu(0).uncorrected.gpu_seconds
    low, high = 0, m
    while low < high:
        middle = (low + high + 1) // 2
        if find_cpu_seconds(problem, plan.profile.cpu, middle, beside_gpu=True) <= limit:
            low = middle
        else:
            high = middle - 1
    return min(m, max(_LEAST_NEAR, ceil(_BEYOND_MEETING * low), ceil(_BEYOND_F * plan.f)))


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
    predicted = plan.predict(f)
    return {
        "f": f,
        "gpu_seconds": predicted.gpu_seconds,
        "cpu_seconds": predicted.cpu_seconds,
        "total_seconds": predicted.total_seconds,
    }


class Span(NamedTuple):
    """Work of a queue.

    Attributes:
        begin: Begin in seconds from the call.
        end: End in seconds from the call.
        rows: Rows of C that it is for; None for the work of several steps.
        columns: Columns of C.
        depth: Columns of A and rows of B.
    """

    begin: float
    end: float
    rows: range | None = None
    columns: range | None = None
    depth: int | None = None


class Queue(NamedTuple):
    """The work of one queue of one device, in order.

    Attributes:
        device: A GPU, such as "cuda:0", or "cpu".
        work: What it does.
        spans: When it is at work.
    """

    device: str
    work: Work
    spans: tuple[Span, ...]


def list_queues(plan: "Plan") -> list[Queue]:
    """The three queues of each GPU that has rows, in the order of the rows, and the CPU's.

    They come from the list of parts that is priced and runs; of very many parts, from some.
    """
    queues = [queue for part in plan.gpu_parts for queue in _list_gpu_queues(plan, part)]
    if plan.f:
        problem = plan.problem
        rows, columns = range(plan.gpu_rows, problem.m), range(problem.n)
        span = Span(0.0, plan.predicted.cpu_seconds, rows, columns, problem.k)
        queues.append(Queue("cpu", "cpu", (span,)))
    return queues


def _list_gpu_queues(plan: "Plan", part: GpuPart) -> list[Queue]:
    device = f"cuda:{plan.profile.gpus[part.position].index}"
    works: tuple[Work, ...] = ("copy in", "kernel", "copy out")
    spans: dict[Work, list[Span]] = {work: [] for work in works}
    traced = part.trace()
    end = max(one.copy_out[1] for one in traced if one.copy_out)
    factor = plan.kinds[0].factor.reported * part.seconds / end
    for one in traced:
        for work, time in zip(works, (one.copy_in, one.kernel, one.copy_out), strict=True):
            if time is not None:
                begin, end = (factor * seconds for seconds in time)
                spans[work].append(_make_span(part, one.part, begin, end))
    return [Queue(device, work, tuple(found)) for work, found in spans.items()]


def _make_span(part: GpuPart, step: Part, begin: float, end: float) -> Span:
    """A step's span. The step's rows and columns count from those of the GPU's part."""
    row, column = part.rows.start, part.columns.start
    rows = range(row + step.rows.start, row + step.rows.stop)
    columns = range(column + step.columns.start, column + step.columns.stop)
    return Span(begin, end, rows, columns, len(step.depth))


def merge_spans(spans: Sequence[Span], total_seconds: float) -> Sequence[Span]:
    """At most `MOST_SPANS` spans: of more, those that are close to each other are merged."""
    gap_seconds = _CLOSE * total_seconds
    while len(spans) > MOST_SPANS:
        spans = _merge_close(spans, gap_seconds)
        gap_seconds *= 2
    return spans


def _merge_close(spans: Sequence[Span], gap_seconds: float) -> list[Span]:
    merged: list[Span] = []
    for span in spans:
        if merged and span.begin - merged[-1].end < gap_seconds:
            merged[-1] = Span(merged[-1].begin, span.end)
        else:
            merged.append(span)
    return merged
