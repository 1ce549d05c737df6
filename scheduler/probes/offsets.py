"""Offset copies: what it costs when warps begin inside a segment of memory."""

from collections.abc import Sequence
from typing import Final

from wavetrim.kernels.memory_probes import COPY_ELEMENTS, measure_offset_copies
from wavetrim.kernels.readings import MemoryReading
from wavetrim.kernels.stopwatch import Stopwatch
from wavetrim.scheduler.experiments.bench import Bench, Hardware
from wavetrim.scheduler.experiments.plot import Plot
from wavetrim.scheduler.experiments.report import Report
from wavetrim.scheduler.probes.rates import draw_rates, make_rows, name_wrong, tabulate_rates
from wavetrim.scheduler.probes.reference import OFFSET_GBYTES

NAME: Final = "offsets"
SHOWS: Final = "offset copies, out[i+o] = in[i+o], GB/s over the offset"
OFFSETS: Final = (0, 1, 2, 4, 8, 12, 16, 24, 32)
LAUNCHES: Final = 9


def run_probe(bench: Bench, elements: int = COPY_ELEMENTS) -> Report:
    """Measure every offset.

    Raises:
        KernelsError: The kernel fails.
    """
    bench.tell(0.0, f"offsets {', '.join(map(str, OFFSETS))}")
    watch = Stopwatch(bench.device.index, bench.cache_dir)
    return make_report(measure_offset_copies(watch, elements, OFFSETS, LAUNCHES), bench.hardware)


def make_report(readings: Sequence[MemoryReading], hardware: Hardware) -> Report:
    """Rates over the offset, beside the reference's."""
    elements = readings[0].moved_bytes // 8
    panel = draw_rates("copied elements only", "offset o", readings, OFFSET_GBYTES)
    return Report(
        name=NAME,
        title=f"out[i+o] = in[i+o] for {elements} elements of float32, 256 threads a block.",
        hardware=hardware,
        findings=name_wrong(f"{one.way} {one.step}" for one in readings if not one.right),
        tables=(tabulate_rates("Copied bytes a second", "offset", readings, OFFSET_GBYTES),),
        plots=(Plot("", f"{NAME}: copies that begin o elements later", (panel,)),),
        rows=make_rows("offset", readings, OFFSET_GBYTES),
        passed=all(one.right for one in readings),
    )
