"""Pitched allocation: rows that begin where lines of memory begin."""

from collections.abc import Sequence
from typing import Final

from wavetrim.kernels.memory_probes import COPY_ELEMENTS, measure_pitched_copies
from wavetrim.kernels.readings import MemoryReading
from wavetrim.kernels.stopwatch import Stopwatch
from wavetrim.scheduler.experiments.bench import Bench, Hardware
from wavetrim.scheduler.experiments.plot import Plot
from wavetrim.scheduler.experiments.report import Report
from wavetrim.scheduler.probes.rates import draw_rates, make_rows, name_wrong, tabulate_rates

NAME: Final = "pitches"
SHOWS: Final = "copies of matrices, rows right behind one another and pitched, over the width"
WIDTHS: Final = (250, 500, 1000, 1021, 1024, 2047, 4095)
LAUNCHES: Final = 9


def run_probe(bench: Bench, elements: int = COPY_ELEMENTS) -> Report:
    """Measure every width.

    Raises:
        KernelsError: The kernel fails.
    """
    bench.tell(0.0, f"widths {', '.join(map(str, WIDTHS))}")
    watch = Stopwatch(bench.device.index, bench.cache_dir)
    return make_report(measure_pitched_copies(watch, elements, WIDTHS, LAUNCHES), bench.hardware)


def make_report(readings: Sequence[MemoryReading], hardware: Hardware) -> Report:
    """Rates over the width, tight and pitched."""
    panel = draw_rates("elements of the matrix only", "columns", readings, logarithmic=False)
    return Report(
        name=NAME,
        title="Copies of float32 matrices; tight: rows right behind one another, pitched: rows "
        "that begin at multiples of 512 bytes.",
        hardware=hardware,
        findings=name_wrong(f"{one.way} {one.step}" for one in readings if not one.right),
        tables=(tabulate_rates("Copied bytes a second", "columns", readings),),
        plots=(Plot("", f"{NAME}: copies of matrices by their width", (panel,)),),
        rows=make_rows("columns", readings),
        passed=all(one.right for one in readings),
    )
