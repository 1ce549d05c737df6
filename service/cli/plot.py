"""A plan in characters: its seconds over F, which show why F was chosen, and its timeline.

Over F the GPU part falls in steps, a wave at a time, the CPU part rises; the total is the longer of
the two. The three have different characters, so the plot needs no colours. The axis of seconds need
not begin at 0: it is chosen so that a wave is at least a line.

In the timeline each queue has a line. A character is an interval of time, and its height shows how
much of it the queue is busy, so a gap shows where one queue waits for another.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from rich.text import Text

from wavetrim.scheduler.planning.plan import Prediction
from wavetrim.service.cli.units import format_seconds

SHORTEST_WIDTH: Final = 24
"""Fewest characters of a line, for axes and labels."""

_HEIGHT: Final = 16
"""Lines between the axes; chosen."""

_LABEL: Final = 10
_LABELLED: Final = 3
_ZOOM: Final = 2.0
"""The largest total that is shown, over that of the chosen F; chosen."""

_BELOW: Final = 0.25
"""Share of the axis below the chosen total, if the axis does not begin at 0; chosen."""


TOTAL: Final = "●"
GPU: Final = "▾"
CPU: Final = "▴"
CHOSEN: Final = "◆"
GUIDE: Final = "┊"
_STYLES: Final = {
    TOTAL: "bold",
    GPU: "green",
    CPU: "cyan",
    CHOSEN: "bold magenta",
    GUIDE: "bold magenta",
    " ": "",
}
_LEGEND: Final = (f"{TOTAL} total", f"{GPU} GPU part", f"{CPU} CPU part", f"{CHOSEN} chosen F")

_HEIGHTS: Final = " ▁▂▃▄▅▆▇█"
_WORKS: Final = {"copy in": "yellow", "kernel": "green", "copy out": "blue", "cpu": "cyan"}


@dataclass(frozen=True, slots=True)
class _Axis:
    """The range of seconds that is drawn, from the lowest line to the highest."""

    low: float
    high: float

    def find_line(self, seconds: float) -> int | None:
        """The line of a time, counted from the top, which has all longer times; None if below."""
        share = (seconds - self.low) / (self.high - self.low) if self.high > self.low else 0.0
        line = _HEIGHT - 1 - round(share * (_HEIGHT - 1))
        return max(0, line) if line < _HEIGHT else None

    def label(self, line: int) -> str:
        """The label of every third line, with enough digits to tell the labels apart."""
        above = _HEIGHT - 1 - line
        if above % _LABELLED:
            return ""
        line_seconds = (self.high - self.low) / (_HEIGHT - 1)
        apart = _LABELLED * line_seconds
        return format_seconds(self.low + above * line_seconds, apart_seconds=apart)


@dataclass(frozen=True, slots=True)
class _Window:
    """The part of 0…M that is drawn, and how F maps to its columns."""

    first: int
    last: int
    columns: int

    def find_column(self, f: int) -> int:
        if self.last == self.first:
            return 0
        return round((f - self.first) * (self.columns - 1) / (self.last - self.first))

    def find_f(self, column: int) -> int:
        return self.first + round(column * (self.last - self.first) / (self.columns - 1))


def draw_curve(
    predict: Callable[[int], Prediction],
    f: int,
    m: int,
    *,
    step_seconds: float = 0.0,
    width: int,
) -> Text:
    """Plot the seconds of both parts and of the total over F, with the chosen F marked.

    Args:
        predict: F → predicted seconds; the GPU's never rise with F, the CPU's never fall below M.
        f: The chosen F.
        m: Rows of C, the largest F.
        step_seconds: About the seconds of a wave; 0 without waves.
        width: Characters a line may have; at least `SHORTEST_WIDTH`.

    Returns:
        Lines of at most `width` characters, with colours.
    """
    columns = max(width, SHORTEST_WIDTH) - _LABEL - 2
    axis = _choose_axis(predict, f, m, step_seconds)
    window = _choose_window(predict, f, m, columns, axis.high)
    at_f = window.find_column(f)
    drawn = [predict(f if x == at_f else window.find_f(x)) for x in range(columns)]
    longest = max(point.total_seconds for point in drawn)
    axis = replace(axis, high=min(axis.high, longest))
    lines = [
        Text(f"{axis.label(y).rjust(_LABEL)} │").append_text(row)
        for y, row in enumerate(_fill_cells(drawn, at_f, axis))
    ]
    ticks = "".join("┴" if x == at_f else "─" for x in range(columns))
    lines.append(Text(" " * (_LABEL + 1) + "└" + ticks))
    lines.append(Text(" " * (_LABEL + 2) + _label_columns(window, f, at_f)))
    in_one = "  ".join(_LEGEND)
    legend = (in_one,) if len(in_one) <= columns else _LEGEND
    lines.extend(Text(" " * (_LABEL + 2) + line) for line in legend)
    return Text("\n").join(lines)


def _choose_axis(
    predict: Callable[[int], Prediction], f: int, m: int, step_seconds: float
) -> _Axis:
    """Seconds from 0 to twice the chosen total; a smaller range if a wave were below a line."""
    total = predict(f).total_seconds
    # With any CPU part at the same time, the GPU's takes longer.
    begin = max(total, predict(f + 1).gpu_seconds) if f < m else total
    axis = _Axis(0.0, _ZOOM * begin)
    shown = (_HEIGHT - 1) * step_seconds
    if not 0 < shown < axis.high:
        return axis
    low = max(0.0, total - _BELOW * shown)
    return _Axis(low, max(low + shown, begin))


def _choose_window(
    predict: Callable[[int], Prediction], f: int, m: int, columns: int, limit: float
) -> _Window:
    """The F around the chosen one at which neither part takes much longer than is drawn."""
    after = range(f + 1, m)
    first = bisect_left(range(f), True, key=lambda f: predict(f).gpu_seconds <= limit)
    last = min(m, f + 1 + bisect_left(after, True, key=lambda f: predict(f).cpu_seconds > limit))
    return _Window(max(0, first - 1) if first == f else first, last, columns)


def _fill_cells(drawn: list[Prediction], at_f: int, axis: _Axis) -> list[Text]:
    """The lines of text between the axes."""
    cells = [[" "] * len(drawn) for _ in range(_HEIGHT)]
    for row in cells:
        row[at_f] = GUIDE
    for x, point in enumerate(drawn):
        total = CHOSEN if x == at_f else TOTAL
        for seconds, mark in (
            (point.gpu_seconds, GPU),
            (point.cpu_seconds, CPU),
            (point.total_seconds, total),
        ):
            if (y := axis.find_line(seconds)) is not None:
                cells[y][x] = mark
    return [Text.assemble(*((mark, _STYLES[mark]) for mark in row)) for row in cells]


def _label_columns(window: _Window, f: int, at_f: int) -> str:
    """The labels of the F axis: both ends, and the chosen F below its column."""
    chosen = f"F = {f}"
    start = min(max(0, at_f - len(chosen) // 2), max(0, window.columns - len(chosen)))
    line = [" "] * window.columns
    line[start : start + len(chosen)] = chosen
    first, last = str(window.first), str(window.last)
    if len(first) < start:
        line[: len(first)] = first
    if start + len(chosen) < window.columns - len(last):
        line[-len(last) :] = last
    return "".join(line).rstrip()


def draw_timeline(queues: Sequence[dict[str, Any]], *, width: int) -> Text:
    """Draw each queue's busy times.

    Args:
        queues: When each queue is at work, as `/v1/plan` describes it.
        width: Characters a line may have.

    Returns:
        A line for each queue, and one of seconds.
    """
    labels = _label_queues(queues)
    indent = max(map(len, (*_WORKS, *labels))) + 1
    columns = max(8, width - indent)
    end = max(queue["spans"][-1]["end_seconds"] for queue in queues)
    lines = []
    for label, queue in zip(labels, queues, strict=True):
        shares = _share_columns(queue, end / columns, columns)
        bar = "".join(_HEIGHTS[_choose_height(share)] for share in shares)
        lines.append(Text(label.ljust(indent)).append(bar.rstrip(), style=_WORKS[queue["queue"]]))
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
