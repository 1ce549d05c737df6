"""Clock cycles of a warp's reads: banks of shared memory, constant memory, read-only cache."""

import math
from collections.abc import Sequence
from typing import Final

from wavetrim.kernels.timing.readings import CycleReading
from wavetrim.lab.gpu.cycles import TABLE_WORDS, measure_banks, measure_tables
from wavetrim.lab.gpu.stopwatch import Stopwatch
from wavetrim.lab.probes.rates import name_wrong
from wavetrim.lab.reports.bench import Bench, Hardware
from wavetrim.lab.reports.plot import Line, Panel, Plot
from wavetrim.lab.reports.report import Report
from wavetrim.lab.reports.table import Row, Table, format_ratio

BANKS: Final = "banks"
BANKS_SHOW: Final = "bank conflicts of shared memory, broadcasts and multicasts, in cycles"
STRIDES: Final = tuple(range(34))
GROUPS: Final = (2, 4, 8, 16)

CONSTANTS: Final = "constants"
CONSTANTS_SHOW: Final = (
    "reads of constant memory and of the read-only cache, in cycles, by different words"
)
DISTINCT: Final = (1, 2, 4, 8, 16, 32)

LAUNCHES: Final = 5
_BANKS: Final = 32


def run_banks(bench: Bench) -> Report:
    """Measure strides (0 is a broadcast) and multicasts to groups of lanes."""
    bench.tell(0.0, "strides and groups")
    watch = Stopwatch(bench.device.index, bench.cache_dir)
    cases = [*((stride, 1) for stride in STRIDES), *((1, group) for group in GROUPS)]
    return report_banks(measure_banks(watch, cases, LAUNCHES), bench.hardware)


def count_turns(stride: int) -> int:
    """Degree of the bank conflict at a stride."""
    return math.gcd(stride, _BANKS) if stride else 1


def report_banks(readings: Sequence[CycleReading], hardware: Hardware) -> Report:
    """The report: cycles and degree of conflict by stride, and cycles of multicasts."""
    strides = [one for one in readings if one.way == "stride"]
    multicasts = [one for one in readings if one.way == "multicast"]
    alone = next((one.cycles for one in strides if one.step == 1), strides[0].cycles)
    cells = tuple(
        (
            str(one.step),
            str(count_turns(one.step)),
            format_ratio(one.cycles),
            format_ratio(one.cycles / alone),
        )
        for one in strides
    )
    panel = draw_cycles("stride of the lanes", "stride, words", strides)
    head = ("stride", "degree", "cycles", "of stride 1")
    return Report(
        name=BANKS,
        title="Reads of shared memory by 8 warps of one block a multiprocessor; lane l reads the "
        "word l·stride, or l // group.",
        hardware=hardware,
        findings=(
            *name_wrong(f"{one.way} {one.step}" for one in readings if not one.right),
            "Stride 0 is a broadcast: all lanes read one word. Stride 33 is the padded tile's.",
        ),
        tables=(
            Table("Strides, cycles for one read of one warp", head, cells),
            tabulate_cycles("Multicasts", "words", multicasts),
        ),
        plots=(Plot("", f"{BANKS}: reads of 32 lanes", (panel,)),),
        rows=make_rows("step", readings),
        passed=all(one.right for one in readings),
    )


def run_constants(bench: Bench) -> Report:
    """Measure reads by the number of different words in a warp."""
    bench.tell(0.0, "constant and read-only")
    watch = Stopwatch(bench.device.index, bench.cache_dir)
    return report_constants(measure_tables(watch, DISTINCT, LAUNCHES), bench.hardware)


def report_constants(readings: Sequence[CycleReading], hardware: Hardware) -> Report:
    """The report: cycles of both memories by the number of different words."""
    panel = draw_cycles("a table in a cache", "different words in a warp's read", readings)
    return Report(
        name=CONSTANTS,
        title=f"Reads of a table of {TABLE_WORDS} words by 8 warps of one block a multiprocessor: "
        "in constant memory, and in global memory through the read-only cache.",
        hardware=hardware,
        findings=(
            *name_wrong(f"{one.way} {one.step}" for one in readings if not one.right),
            "With one word, all lanes read the same: the constant cache broadcasts it.",
        ),
        tables=(tabulate_cycles("Table", "different words", readings),),
        plots=(Plot("", f"{CONSTANTS}: reads of a small table", (panel,)),),
        rows=make_rows("words", readings),
        passed=all(one.right for one in readings),
    )


def tabulate_cycles(title: str, step: str, readings: Sequence[CycleReading]) -> Table:
    """A table of cycles by step and way; readings may be missing."""
    ways = tuple(dict.fromkeys(one.way for one in readings))
    known = {(one.way, one.step): one.cycles for one in readings}
    rows = tuple(
        (str(value), *(format_ratio(known.get((way, value))) for way in ways))
        for value in dict.fromkeys(one.step for one in readings)
    )
    return Table(f"{title}, cycles for one read of one warp", (step, *ways), rows)


def draw_cycles(title: str, x_label: str, readings: Sequence[CycleReading]) -> Panel:
    """A panel of cycles over steps, with a line for each way."""
    lines = []
    for colour, way in enumerate(dict.fromkeys(one.way for one in readings)):
        of_way = sorted((one for one in readings if one.way == way), key=lambda one: one.step)
        x = tuple(float(one.step) for one in of_way)
        lines.append(Line(way, x, tuple(one.cycles for one in of_way), colour=colour))
    return Panel(title, x_label, "cycles a read", tuple(lines))


def make_rows(step: str, readings: Sequence[CycleReading]) -> tuple[Row, ...]:
    """The readings as rows of a CSV file."""
    return tuple(
        {"way": one.way, step: one.step, "cycles": one.cycles, "right": one.right}
        for one in readings
    )
