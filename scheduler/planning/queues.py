"""The queues of a plan: when copies in, kernels, copies out and the CPU should be at work. Pure."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from wavetrim.kernels.schedule.steps import Step
from wavetrim.scheduler.planning.team import GpuPart

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

    From the schedule's list of steps, scaled to the plan's predicted seconds. Where a part of a
    product with very many steps stands for all (`wavetrim.scheduler.model.gpu_curve`), so it does
    here.
    """
    queues = [queue for part in plan.gpu_parts for queue in _list_gpu_queues(plan, part)]
    if plan.f:
        problem = plan.problem
        rows, columns = range(plan.gpu_rows, problem.m), range(problem.n)
        span = Span(0.0, plan.predicted.cpu_seconds, rows, columns, problem.k)
        queues.append(Queue("cpu", "cpu", (span,)))
    return queues


def _list_gpu_queues(plan: "Plan", part: GpuPart) -> list[Queue]:
    steps, timeline = part.curve.find_timeline(len(part.rows))
    scale = part.seconds / timeline.seconds
    device = f"cuda:{plan.profile.gpus[part.position].index}"
    queues: list[tuple[Work, Iterable[tuple[float, float] | None]]] = [
        ("copy in", timeline.copies_in),
        ("kernel", timeline.kernels),
        ("copy out", timeline.copies_out),
    ]
    return [
        Queue(
            device,
            work,
            tuple(
                _make_span(part, step, time[0] * scale, time[1] * scale)
                for step, time in zip(steps, times, strict=True)
                if time is not None
            ),
        )
        for work, times in queues
    ]


def _make_span(part: GpuPart, step: Step, begin: float, end: float) -> Span:
    """A step's span. The step's rows and columns count from those of the GPU's part."""
    row, column = part.rows.start, part.columns.start
    rows = range(row + step.rows.start, row + step.rows.stop)
    columns = range(column + step.columns.start, column + step.columns.stop)
    return Span(begin, end, rows, columns, len(step.depth))


def merge_spans(spans: Sequence[Span], total_seconds: float) -> Sequence[Span]:
    """At most `MOST_SPANS` spans: of more, those that are close to each other are merged.

    Args:
        spans: Spans of one queue, in order.
        total_seconds: Seconds of the plan.
    """
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
