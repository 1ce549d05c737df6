"""A product's timeline in characters: when copies, kernels and the CPU are at work.

Each queue has a line. A character is an interval of time, and its height shows how much of it the
queue is busy, so a gap shows where one queue waits for another.
"""

from collections.abc import Sequence
from typing import Any, Final

from rich.text import Text

from wavetrim.service.cli.terminal.units import format_seconds

_HEIGHTS: Final = " ▁▂▃▄▅▆▇█"
_STYLES: Final = {"copy in": "yellow", "kernel": "green", "copy out": "blue", "cpu": "cyan"}


def draw_timeline(queues: Sequence[dict[str, Any]], *, width: int) -> Text:
    """Draw each queue's busy times.

    Args:
        queues: When each queue is at work, as `/v1/plan` describes it.
        width: Characters a line may have.

    Returns:
        A line for each queue, and one of seconds.
    """
    labels = _label_queues(queues)
    indent = max(map(len, (*_STYLES, *labels))) + 1
    columns = max(8, width - indent)
    end = max(span["end_seconds"] for queue in queues for span in queue["spans"])
    lines = []
    for label, queue in zip(labels, queues, strict=True):
        shares = share_columns(queue["spans"], end / columns, columns)
        bar = "".join(_HEIGHTS[_choose_height(share)] for share in shares)
        lines.append(Text(label.ljust(indent)).append(bar.rstrip(), style=_STYLES[queue["queue"]]))
    lines.append(Text(" " * indent + "0" + format_seconds(end).rjust(columns - 1)))
    return Text("\n").join(lines)


def _label_queues(queues: Sequence[dict[str, Any]]) -> list[str]:
    """The name of each queue; of several GPUs, with the GPU's."""
    several = len({queue["device"] for queue in queues} - {"cpu"}) > 1
    named = [(queue["device"], queue["queue"]) for queue in queues]
    return [
        "CPU" if work == "cpu" else f"{device} {work}" if several else work
        for device, work in named
    ]


def share_columns(
    spans: Sequence[dict[str, Any]], column_seconds: float, columns: int
) -> list[float]:
    """The share of each column's time that is within a span, 0…1."""
    shares = [0.0] * columns
    for span in spans:
        span_begin, span_end = span["begin_seconds"], span["end_seconds"]
        first, last = int(span_begin / column_seconds), int(span_end / column_seconds)
        for column in range(first, min(last + 1, columns)):
            begin, end = column * column_seconds, (column + 1) * column_seconds
            within = min(end, span_end) - max(begin, span_begin)
            shares[column] += max(0.0, within) / column_seconds
    return [min(1.0, share) for share in shares]


def _choose_height(share: float) -> int:
    """The height of a share: 0 only for no work at all, so that a short copy is seen."""
    most = len(_HEIGHTS) - 1
    return 0 if share <= 0 else max(1, round(share * most))
