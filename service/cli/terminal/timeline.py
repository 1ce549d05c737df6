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
    end = max(queue["spans"][-1]["end_seconds"] for queue in queues)
    lines = []
    for label, queue in zip(labels, queues, strict=True):
        shares = _share_columns(queue, end / columns, columns)
        bar = "".join(_HEIGHTS[_choose_height(share)] for share in shares)
        lines.append(Text(label.ljust(indent)).append(bar.rstrip(), style=_STYLES[queue["queue"]]))
    lines.append(Text(" " * indent + "0" + format_seconds(end).rjust(columns - 1)))
    return Text("\n").join(lines)


def _label_queues(queues: Sequence[dict[str, Any]]) -> list[str]:
    """The name of each queue; of several GPUs, with the GPU's."""
    several = len({queue["device"] for queue in queues} - {"cpu"}) > 1
    name = "{device} {queue}" if several else "{queue}"
    return ["CPU" if one["queue"] == "cpu" else name.format(**one) for one in queues]


def _share_columns(queue: dict[str, Any], column_seconds: float, columns: int) -> list[float]:
    """The share of each column's time that the queue is at work, 0…1."""
    shares = [0.0] * columns
    for span in queue["spans"]:
        begin, end = (span[name] / column_seconds for name in ("begin_seconds", "end_seconds"))
        for column in range(int(begin), min(int(end) + 1, columns)):
            shares[column] += max(0.0, min(column + 1, end) - max(column, begin))
    return [min(1.0, share) for share in shares]


def _choose_height(share: float) -> int:
    """The height of a share: 0 only for no work at all, so that a short copy is seen."""
    most = len(_HEIGHTS) - 1
    return 0 if share <= 0 else max(1, round(share * most))
