"""A plot in characters of seconds over F, which shows why a plan's F was chosen.

The GPU part falls in steps, a wave at a time, the CPU part rises; the total is the longer of the
two. The three have different characters, so the plot needs no colours. The axis of seconds need
not begin at 0: it is chosen so that a wave is at least a line.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from rich.text import Text

from wavetrim.scheduler.planning.plan import Prediction
from wavetrim.service.cli.terminal.units import format_seconds

SHORTEST_WIDTH: Final = 24
"""Fewest characters of a line, for axes and labels."""

_HEIGHT: Final = 16
_LABEL: Final = 10
_LABELLED: Final = 3
_ZOOM: Final = 2.0
"""The largest total that is shown, over that of the chosen F; chosen."""

_BELOW: Final = 0.25
"""Share of the axis below the chosen total, if the axis does not begin at 0; chosen."""


@dataclass(frozen=True, slots=True)
class Marks:
    """The characters of a plot."""

    total: str
    gpu: str
    cpu: str
    chosen: str
    guide: str
    axis_y: str
    axis_x: str
    corner: str
    tick: str


UNICODE: Final = Marks("●", "▾", "▴", "◆", "┊", "│", "─", "└", "┴")
ASCII: Final = Marks("*", "g", "c", "F", ":", "|", "-", "+", "+")

_STYLES: Final = {"total": "bold", "gpu": "green", "cpu": "cyan", "chosen": "bold magenta"}


@dataclass(frozen=True, slots=True)
class _Axis:
    """The range of seconds that is drawn, from the lowest line to the highest."""

    low: float
    high: float
    height: int

    def find_line(self, seconds: float) -> int | None:
        """The line of a time, counted from the top, which has all longer times; None if below."""
        share = (seconds - self.low) / (self.high - self.low) if self.high > self.low else 0.0
        line = self.height - 1 - round(share * (self.height - 1))
        return max(0, line) if line < self.height else None

    def label(self, line: int) -> str:
        """The label of every third line, with enough digits to tell the labels apart."""
        above = self.height - 1 - line
        if above % _LABELLED:
            return ""
        line_seconds = (self.high - self.low) / (self.height - 1)
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
        if self.columns == 1:
            return self.first
        return self.first + round(column * (self.last - self.first) / (self.columns - 1))


def draw_curve(
    predict: Callable[[int], Prediction],
    f: int,
    m: int,
    *,
    step_seconds: float = 0.0,
    width: int,
    height: int = _HEIGHT,
    ascii_only: bool = False,
) -> Text:
    """Plot the seconds of both parts and of the total over F, with the chosen F marked.

    Args:
        predict: F → predicted seconds; the GPU's never rise with F, the CPU's never fall below M.
        f: The chosen F.
        m: Rows of C, the largest F.
        step_seconds: About the seconds of a wave; 0 without waves.
        width: Characters a line may have; at least `SHORTEST_WIDTH`.
        height: Lines between the axes.
        ascii_only: Use no character outside ASCII.

    Returns:
        Lines of at most `width` characters, with colours.
    """
    marks = ASCII if ascii_only else UNICODE
    columns = max(width, SHORTEST_WIDTH) - _LABEL - 2
    axis = _choose_axis(predict, f, m, step_seconds, height)
    window = _choose_window(predict, f, m, columns, axis.high)
    at_f = window.find_column(f)
    drawn = [predict(f if x == at_f else window.find_f(x)) for x in range(columns)]
    longest = max(point.total_seconds for point in drawn)
    axis = replace(axis, high=min(axis.high, longest))
    cells = _fill_cells(drawn, at_f, axis, marks)
    labels = [axis.label(y) for y in range(height)]
    if ascii_only:
        labels = [label.replace("µ", "u") for label in labels]
    lines = [
        Text(label.rjust(_LABEL) + " " + marks.axis_y).append_text(row)
        for label, row in zip(labels, cells, strict=True)
    ]
    ticks = "".join(marks.tick if x == at_f else marks.axis_x for x in range(columns))
    lines.append(Text(" " * (_LABEL + 1) + marks.corner + ticks))
    lines.append(Text(" " * (_LABEL + 2) + _label_columns(window, f, at_f)))
    lines.extend(_write_legend(marks, columns))
    return Text("\n").join(lines)


def _choose_axis(
    predict: Callable[[int], Prediction], f: int, m: int, step_seconds: float, height: int
) -> _Axis:
    """Seconds from 0 to twice the chosen total; a smaller range if a wave were below a line."""
    total = predict(f).total_seconds
    # With any CPU part at the same time, the GPU's takes longer.
    begin = max(total, predict(f + 1).gpu_seconds) if f < m else total
    axis = _Axis(0.0, _ZOOM * begin, height)
    shown = (height - 1) * step_seconds
    if not 0 < shown < axis.high:
        return axis
    low = max(0.0, total - _BELOW * shown)
    return _Axis(low, max(low + shown, begin), height)


def _choose_window(
    predict: Callable[[int], Prediction], f: int, m: int, columns: int, limit: float
) -> _Window:
    """The F around the chosen one at which neither part takes much longer than is drawn."""
    first = _bisect(-1, f, lambda value: predict(value).gpu_seconds <= limit)
    last = _bisect(f, m, lambda value: predict(value).cpu_seconds > limit) if f < m else m
    return _Window(max(0, first - 1) if first == f else first, last, columns)


def _bisect(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The least value above `low` that holds, else `high`; all values above it hold, too."""
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def _fill_cells(drawn: list[Prediction], at_f: int, axis: _Axis, marks: Marks) -> list[Text]:
    """The lines of text between the axes."""
    cells = [[(" ", "")] * len(drawn) for _ in range(axis.height)]
    for row in cells:
        row[at_f] = (marks.guide, _STYLES["chosen"])

    def put(x: int, seconds: float, mark: str, style: str) -> None:
        y = axis.find_line(seconds)
        if y is not None:
            cells[y][x] = (mark, style)

    for x, point in enumerate(drawn):
        put(x, point.gpu_seconds, marks.gpu, _STYLES["gpu"])
        put(x, point.cpu_seconds, marks.cpu, _STYLES["cpu"])
        mark, style = (marks.chosen, "chosen") if x == at_f else (marks.total, "total")
        put(x, point.total_seconds, mark, _STYLES[style])
    return [Text.assemble(*row) for row in cells]


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


def _write_legend(marks: Marks, columns: int) -> list[Text]:
    """The meaning of each character, in as few lines as possible."""
    entries = (
        f"{marks.total} total",
        f"{marks.gpu} GPU part",
        f"{marks.cpu} CPU part",
        f"{marks.chosen} chosen F",
    )
    lines = [entries[0]]
    for entry in entries[1:]:
        if len(lines[-1]) + 2 + len(entry) <= columns:
            lines[-1] += f"  {entry}"
        else:
            lines.append(entry)
    return [Text(" " * (_LABEL + 2) + line) for line in lines]
