"""Tables, plots and rows of copies over a link."""

from collections.abc import Sequence
from typing import Final

from kernels.readings import LinkReading
from scheduler.experiments.plot import Line, Panel
from scheduler.experiments.table import Row, Table, format_digits

_LEAST_DRAWN: Final = 1024


def list_columns(readings: Sequence[LinkReading]) -> tuple[tuple[str, str], ...]:
    """Each way with each of its directions, in their order."""
    return tuple(dict.fromkeys((one.way, one.direction) for one in readings))


def tabulate_links(title: str, readings: Sequence[LinkReading], *, latency: bool) -> Table:
    """Microseconds, or GB/s in all directions together, by size."""
    columns = list_columns(readings)
    known = {(one.way, one.direction, one.size_bytes): one for one in readings}

    def show(one: LinkReading | None) -> str:
        if one is None:
            return ""
        return format_digits(1e6 * one.seconds if latency else one.gbytes_per_second)

    rows = tuple(
        (format_size(size), *(show(known.get((*column, size))) for column in columns))
        for size in dict.fromkeys(one.size_bytes for one in readings)
    )
    unit = "µs" if latency else "GB/s"
    return Table(f"{title}, {unit}", ("size", *(" ".join(column) for column in columns)), rows)


def draw_links(title: str, readings: Sequence[LinkReading]) -> Panel:
    """Bytes a second over the size, from 1 KiB on, a line for each way and direction."""
    lines = []
    for colour, column in enumerate(list_columns(readings)):
        points = [
            one
            for one in readings
            if (one.way, one.direction) == column and one.size_bytes >= _LEAST_DRAWN
        ]
        x = tuple(one.size_bytes / 1024 for one in points)
        y = tuple(1e9 * one.gbytes_per_second for one in points)
        lines.append(Line(" ".join(column), x, y, colour=colour))
    return Panel(
        title,
        "size, KiB",
        "bytes a second",
        tuple(lines),
        powers_of_two=True,
        logarithmic=True,
        y_unit="B/s",
    )


def make_rows(readings: Sequence[LinkReading]) -> tuple[Row, ...]:
    """The figures for a program."""
    return tuple(
        {
            "way": one.way,
            "direction": one.direction,
            "size_bytes": one.size_bytes,
            "copies": one.copies,
            "median_seconds": one.seconds,
            "least_seconds": min(one.run_seconds),
            "most_seconds": max(one.run_seconds),
            "gbytes_per_second": one.gbytes_per_second,
            "right": one.right,
        }
        for one in readings
    )


def name_wrong_copies(readings: Sequence[LinkReading]) -> tuple[str, ...]:
    """Those whose bytes were wrong."""
    return tuple(
        f"{one.way} {one.direction}, {format_size(one.size_bytes)}"
        for one in readings
        if not one.right
    )


def format_size(size_bytes: int) -> str:
    """With the largest binary unit that leaves a whole number: "64 KiB"."""
    unit = 0
    while size_bytes and size_bytes % 1024 == 0 and unit < 3:
        size_bytes //= 1024
        unit += 1
    return f"{size_bytes} {('B', 'KiB', 'MiB', 'GiB')[unit]}"
