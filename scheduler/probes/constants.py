"""Constant memory and the read-only cache: uniform reads, and reads of different words."""

from collections.abc import Sequence
from typing import Final

from wavetrim.kernels.cycle_probes import TABLE_WORDS, measure_tables
from wavetrim.kernels.readings import CycleReading
from wavetrim.kernels.stopwatch import Stopwatch
from wavetrim.scheduler.experiments.bench import Bench, Hardware
from wavetrim.scheduler.experiments.plot import Plot
from wavetrim.scheduler.experiments.report import Report
from wavetrim.scheduler.probes.cycles import draw_cycles, make_rows, tabulate_cycles
from wavetrim.scheduler.probes.rates import name_wrong

NAME: Final = "constants"
SHOWS: Final = "reads of constant memory and of the read-only cache, in cycles, by different words"
DISTINCT: Final = (1, 2, 4, 8, 16, 32)
LAUNCHES: Final = 5


def run_probe(bench: Bench) -> Report:
    """Measure warps that read so many different words at once.

    Raises:
        KernelsError: The kernel fails.
    """
    bench.tell(0.0, "constant and read-only")
    watch = Stopwatch(bench.device.index, bench.cache_dir)
    return make_report(measure_tables(watch, DISTINCT, LAUNCHES), bench.hardware)


def make_report(readings: Sequence[CycleReading], hardware: Hardware) -> Report:
    """Cycles of both ways over the different words."""
    panel = draw_cycles("a table in a cache", "different words in a warp's read", readings)
    return Report(
        name=NAME,
        title=f"Reads of a table of {TABLE_WORDS} words by 8 warps of one block a multiprocessor: "
        "in constant memory, and in global memory through the read-only cache.",
        hardware=hardware,
        findings=(
            *name_wrong(f"{one.way} {one.step}" for one in readings if not one.right),
            "With one word, all lanes read the same: the constant cache broadcasts it.",
        ),
        tables=(tabulate_cycles("Table", "different words", readings),),
        plots=(Plot("", f"{NAME}: reads of a small table", (panel,)),),
        rows=make_rows("words", readings),
        passed=all(one.right for one in readings),
    )
