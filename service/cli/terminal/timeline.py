"""A product's timeline in characters: when copies, kernels and the CPU are at work.

Each queue has a line. A character is an interval of time, and its height shows how much of it the
queue is busy, so a gap shows where one queue waits for another.
"""

from typing import Final

from rich.text import Text

from wavetrim.scheduler.planning.plan import Span
from wavetrim.service.cli.terminal.units import format_seconds

_HEIGHTS: Final = " ▁▂▃▄▅▆▇█"
_ASCII_HEIGHTS: Final = " .:-=+*#@"
_STYLES: Final = {"copy in": "yellow", "kernel": "green", "copy out": "blue", "CPU": "cyan"}
_LABEL: Final = max(map(len, _STYLES)) + 1


def draw_timeline(
    queues: dict[str, tuple[Span, ...]], *, width: int, ascii_only: bool = False
) -> Text:
    """Draw each queue's busy times.

    Args:
        queues: Begin and end of all work of each queue, in seconds from the call.
        width: Characters a line may have.
        ascii_only: Use no character outside ASCII.

    Returns:
        A line for each queue, and one of seconds.
    """
    columns = max(8, width - _LABEL)
    end = max(span.end for spans in queues.values() for span in spans)
    heights = _ASCII_HEIGHTS if ascii_only else _HEIGHTS
    lines = []
    for name, spans in queues.items():
        shares = share_columns(spans, end / columns, columns)
        bar = "".join(heights[_choose_height(share)] for share in shares)
        lines.append(Text(name.ljust(_LABEL)).append(bar.rstrip(), style=_STYLES[name]))
    last = format_seconds(end).replace("µ", "u") if ascii_only else format_seconds(end)
    lines.append(Text(" " * _LABEL + "0" + last.rjust(columns - 1)))
    return Text("\n").join(lines)


def share_columns(spans: tuple[Span, ...], column_seconds: float, columns: int) -> list[float]:
    """The share of each column's time that is within a span, 0…1."""
    shares = [0.0] * columns
    for span in spans:
        first, last = int(span.begin / column_seconds), int(span.end / column_seconds)
        for column in range(first, min(last + 1, columns)):
            begin, end = column * column_seconds, (column + 1) * column_seconds
            within = min(end, span.end) - max(begin, span.begin)
            shares[column] += max(0.0, within) / column_seconds
    return [min(1.0, share) for share in shares]


def _choose_height(share: float) -> int:
    """The height of a share: 0 only for no work at all, so that a short copy is seen."""
    most = len(_HEIGHTS) - 1
    return 0 if share <= 0 else max(1, round(share * most))
