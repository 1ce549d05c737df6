"""Tables, plots and rows of copies over a link."""

from collections.abc import Sequence
from typing import Final

from wavetrim.kernels.timing.readings import LinkReading
from wavetrim.lab.reports.plot import Line, Panel
from wavetrim.lab.reports.table import Row, Table, format_digits

_LEAST_DRAWN: Final = 1024


def tabulate_links(
    title: str, way: str, readings: Sequence[LinkReading], *, latency: bool
) -> Table:
    """A table of latencies in µs, or rates in GB/s (all directions together), by way and size.

    Args:
        title: Title; the unit is added.
        way: Heading of the ways, such as "memory".
        readings: The readings; some sizes of a way may be missing.
        latency: Whether to show latencies.
    """
    directions = tuple(dict.fromkeys(one.direction for one in readings))
    known = {(one.way, one.size_bytes, one.direction): one for one in readings}

    def show(one: LinkReading | None) -> str:
        if one is None:
            return ""
        return format_digits(1e6 * one.seconds if latency else one.gbytes_per_second)

    rows = tuple(
        (name, format_size(size), *(show(known.get((name, size, to))) for to in directions))
        for name, size in dict.fromkeys((one.way, one.size_bytes) for one in readings)
    )
    unit = "µs" if latency else "GB/s"
    return Table(f"{title}, {unit}", (way, "size", *directions), rows)


def draw_links(title: str, readings: Sequence[LinkReading]) -> Panel:
    """A panel of rates over the size, from 1 KiB on, with a line for each direction."""
    lines = []
    for colour, direction in enumerate(dict.fromkeys(one.direction for one in readings)):
        points = [
            one for one in readings if one.direction == direction and one.size_bytes >= _LEAST_DRAWN
        ]
        x = tuple(one.size_bytes / 1024 for one in points)
        y = tuple(1e9 * one.gbytes_per_second for one in points)
        lines.append(Line(direction, x, y, colour=colour))
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
    """The readings as rows of a CSV file."""
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
    """Names of the copies that brought wrong bytes."""
    return tuple(
        f"{one.way} {one.direction}, {format_size(one.size_bytes)}"
        for one in readings
        if not one.right
    )


def format_size(size_bytes: int) -> str:
    """The size in the largest binary unit that gives a whole number: "64 KiB"."""
    unit = 0
    while size_bytes and size_bytes % 1024 == 0 and unit < 3:
        size_bytes //= 1024
        unit += 1
    return f"{size_bytes} {('B', 'KiB', 'MiB', 'GiB')[unit]}"
