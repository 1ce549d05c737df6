"""Tables, plots and rows of cycles for the reads of a warp."""

from collections.abc import Sequence

from wavetrim.kernels.readings import CycleReading
from wavetrim.scheduler.experiments.plot import Line, Panel
from wavetrim.scheduler.experiments.table import Row, Table, format_ratio


def tabulate_cycles(title: str, step: str, readings: Sequence[CycleReading]) -> Table:
    """Cycles by step and way; a way may lack some steps."""
    ways = tuple(dict.fromkeys(one.way for one in readings))
    known = {(one.way, one.step): one.cycles for one in readings}
    rows = tuple(
        (str(value), *(format_ratio(known.get((way, value))) for way in ways))
        for value in dict.fromkeys(one.step for one in readings)
    )
    return Table(f"{title}, cycles for one read of one warp", (step, *ways), rows)


def draw_cycles(title: str, x_label: str, readings: Sequence[CycleReading]) -> Panel:
    """Cycles over the steps, a line for each way."""
    lines = []
    for colour, way in enumerate(dict.fromkeys(one.way for one in readings)):
        of_way = sorted((one for one in readings if one.way == way), key=lambda one: one.step)
        x = tuple(float(one.step) for one in of_way)
        lines.append(Line(way, x, tuple(one.cycles for one in of_way), colour=colour))
    return Panel(title, x_label, "cycles a read", tuple(lines))


def make_rows(step: str, readings: Sequence[CycleReading]) -> tuple[Row, ...]:
    """The figures for a program."""
    return tuple(
        {"way": one.way, step: one.step, "cycles": one.cycles, "right": one.right}
        for one in readings
    )
