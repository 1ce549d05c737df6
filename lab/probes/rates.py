"""Tables, plots and CSV rows of rates over a varied quantity."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from wavetrim.kernels.timing.readings import MemoryReading
from wavetrim.lab.reports.plot import Line, Panel
from wavetrim.lab.reports.table import Row, Table, format_digits, format_ratio

MACHINE: Final = "Tesla M2070"
"""The reference's GPU."""

RIGHT: Final = "Every result was right."


def name_wrong(wrong: Iterable[str]) -> tuple[str, ...]:
    """A sentence for each wrong reading, or one that all are right."""
    return tuple(f"WRONG: {reading}." for reading in wrong) or (RIGHT,)


def list_ways(readings: Sequence[MemoryReading]) -> tuple[str, ...]:
    """The ways of the readings, in order."""
    return tuple(dict.fromkeys(one.way for one in readings))


def tabulate_rates(
    title: str,
    step: str,
    readings: Sequence[MemoryReading],
    reference: Mapping[int, float] | None = None,
) -> Table:
    """A table of rates in GB/s by step and way.

    With only one way it also has the ratio to the first rate.

    Args:
        title: Title; the unit is added.
        step: Name of the varied quantity.
        readings: The readings; some steps of a way may be missing.
        reference: The reference's rates in 1e9 bytes a second by step, shown likewise.
    """
    ways = list_ways(readings)
    known = {(one.way, one.step): one.gbytes_per_second for one in readings}
    head = [step, *ways]
    if len(ways) == 1:
        head.append("of the first")
    if reference:
        head += [MACHINE, "of its first"]
    rows = []
    for value in dict.fromkeys(one.step for one in readings):
        cells = [str(value), *(_format(known.get((way, value))) for way in ways)]
        if len(ways) == 1:
            cells.append(format_ratio(known[ways[0], value] / readings[0].gbytes_per_second))
        if reference:
            there = reference.get(value)
            first = next(iter(reference.values()))
            cells += [_format(there), format_ratio(None if there is None else there / first)]
        rows.append(tuple(cells))
    return Table(f"{title}, GB/s", tuple(head), tuple(rows))


def draw_rates(
    title: str,
    x_label: str,
    readings: Sequence[MemoryReading],
    reference: Mapping[int, float] | None = None,
    *,
    powers_of_two: bool = False,
    logarithmic: bool = True,
) -> Panel:
    """A panel of rates over steps, with a line for each way; the reference's line is dashed."""
    lines = []
    for colour, way in enumerate(list_ways(readings)):
        of_way = [one for one in readings if one.way == way]
        x = tuple(float(one.step) for one in of_way)
        lines.append(
            Line(way, x, tuple(1e9 * one.gbytes_per_second for one in of_way), False, colour)
        )
    if reference:
        x, y = tuple(map(float, reference)), tuple(1e9 * rate for rate in reference.values())
        lines.append(Line(MACHINE, x, y, True, len(lines)))
    return Panel(
        title,
        x_label,
        "bytes a second",
        tuple(lines),
        powers_of_two=powers_of_two,
        logarithmic=logarithmic,
        y_unit="B/s",
    )


def make_rows(
    step: str, readings: Sequence[MemoryReading], reference: Mapping[int, float] | None = None
) -> tuple[Row, ...]:
    """The readings as rows of a CSV file."""
    return tuple(
        {
            "way": one.way,
            step: one.step,
            "moved_bytes": one.moved_bytes,
            "launches": len(one.run_seconds),
            "median_seconds": one.seconds,
            "least_seconds": min(one.run_seconds),
            "most_seconds": max(one.run_seconds),
            "gbytes_per_second": one.gbytes_per_second,
            "reference_gbytes_per_second": (reference or {}).get(one.step),
            "right": one.right,
        }
        for one in readings
    )


def _format(rate: float | None) -> str:
    return "" if rate is None else format_digits(rate)
