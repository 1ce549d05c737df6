"""Copies of parts of rows while a kernel fills the GPU: do they wait for it, as kernels do?"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from wavetrim.lab.gpu.row_copies import GAPS, RowCopyReading, measure_row_copies
from wavetrim.lab.gpu.stopwatch import Stopwatch
from wavetrim.lab.probes.links import format_size
from wavetrim.lab.probes.rates import name_wrong
from wavetrim.lab.reports.bench import Bench, Hardware
from wavetrim.lab.reports.plot import Line, Panel, Plot
from wavetrim.lab.reports.report import Report
from wavetrim.lab.reports.table import Table, format_digits, format_milliseconds

NAME: Final = "row-copies"
SHOWS: Final = "copies of parts of rows, on an idle GPU and beside a kernel that fills it"
SIZE_BYTES: Final = 32 << 20
ROW_BYTES: Final = (256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 1 << 20)
RUNS: Final = 5


def run_probe(bench: Bench, size_bytes: int = SIZE_BYTES) -> Report:
    """Measure every length of a row, in both directions."""
    bench.tell(0.0, f"rows of {', '.join(map(format_size, ROW_BYTES))}")
    watch = Stopwatch(bench.device.index, bench.cache_dir)
    return make_report(measure_row_copies(watch, size_bytes, ROW_BYTES, RUNS), bench.hardware)


def make_report(readings: Sequence[RowCopyReading], hardware: Hardware) -> Report:
    """The report: rates alone and times beside the kernel, by length of a row."""
    cells = tuple(
        (
            _name_rows(one.row_bytes),
            one.gaps,
            one.direction,
            format_digits(one.size_bytes / one.alone_seconds / 1e9),
            format_milliseconds(one.alone_seconds),
            format_milliseconds(one.beside_seconds),
            "yes" if one.waited else "no",
        )
        for one in readings
    )
    head = ("row", "gaps", "direction", "GB/s alone", "ms alone", "ms beside", "waited")
    size = format_size(readings[0].size_bytes)
    busy = format_milliseconds(min(one.busy_seconds for one in readings))
    panels = tuple(_draw(direction, readings) for direction in ("in", "out"))
    return Report(
        name=NAME,
        title=f"{size} between pinned memory and the GPU: in one piece, and in rows with gaps as "
        "long as they are, in host memory or on both sides.",
        hardware=hardware,
        findings=(
            *name_wrong(_name_copy(one) for one in readings if not one.right),
            f"Beside: a kernel that fills the GPU for {busy} ms or more starts before the copy.",
            "Waited: the copy ended after that kernel, as a copy does that runs as a kernel.",
            _tell_waiting(readings),
        ),
        tables=(Table(f"Copies of {size}", head, cells),),
        plots=(Plot("", f"{NAME}: alone, and beside a kernel", panels, same_y=True),),
        rows=tuple(map(asdict, readings)),
        passed=all(one.right for one in readings),
    )


def _draw(direction: str, readings: Sequence[RowCopyReading]) -> Panel:
    """A panel of times by length of a row, without the contiguous copies."""
    lines: list[Line] = []
    for gaps in GAPS[1:]:
        rows = [one for one in readings if (one.direction, one.gaps) == (direction, gaps)]
        x = tuple(one.row_bytes / 1024 for one in rows)
        alone = tuple(one.alone_seconds for one in rows)
        beside = tuple(one.beside_seconds for one in rows)
        lines += [
            Line(f"gaps {gaps}, alone", x, alone, colour=len(lines)),
            Line(f"gaps {gaps}, beside a kernel", x, beside, colour=len(lines) + 1),
        ]
    return Panel(direction, "KiB of a row", "time", tuple(lines), powers_of_two=True, y_unit="s")


def _tell_waiting(readings: Sequence[RowCopyReading]) -> str:
    waited = [_name_copy(one) for one in readings if one.waited]
    if not waited:
        return "No copy waited."
    return f"{len(waited)} of {len(readings)} copies waited: {'; '.join(waited)}."


def _name_copy(one: RowCopyReading) -> str:
    gaps = f", gaps {one.gaps}" if one.row_bytes else ""
    return f"{_name_rows(one.row_bytes)} {one.direction}{gaps}"


def _name_rows(row_bytes: int) -> str:
    return format_size(row_bytes) if row_bytes else "one piece"
