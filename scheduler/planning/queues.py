"""The queues of a plan: when copies in, kernels, copies out and the CPU should be at work. Pure."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from wavetrim.kernels.schedule.steps import Part
from wavetrim.scheduler.planning.gpu_rows import GpuPart

if TYPE_CHECKING:
    from wavetrim.scheduler.planning.plan import Plan

Work: TypeAlias = Literal["copy in", "kernel", "copy out", "cpu"]
"""What a queue does."""

MOST_SPANS: Final = 400
"""Most spans of a merged queue; chosen, as a drawing shows no more."""

_CLOSE: Final = 1e-3
"""Spans closer than this share of the plan's time are merged; chosen."""


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
    times = plan.times
    side = times.in_split if plan.f else times.alone
    assert side is not None, "a part is that of a GPU"
    device = f"cuda:{plan.profile.gpus[part.position].index}"
    works: tuple[Work, ...] = ("copy in", "kernel", "copy out")
    spans: dict[Work, list[Span]] = {work: [] for work in works}
    traced = side.trace(part)
    end = max(one.copy_out[1] for one in traced if one.copy_out)
    factor = times.list_kinds(plan.f)[0].factor.reported * part.seconds / end
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
