"""Copies of vectors: how many bytes must be under way for the memory's full rate."""

from collections.abc import Sequence
from typing import Final

from wavetrim.kernels.memory_probes import measure_vector_copies
from wavetrim.kernels.readings import MemoryReading
from wavetrim.kernels.stopwatch import Stopwatch
from wavetrim.scheduler.experiments.bench import Bench, Hardware
from wavetrim.scheduler.experiments.plot import Plot
from wavetrim.scheduler.experiments.report import Report
from wavetrim.scheduler.probes.rates import draw_rates, make_rows, name_wrong, tabulate_rates

NAME: Final = "vectors"
SHOWS: Final = "copies by 4, 8 and 16 bytes a load, 1 and 4 loads a thread: the memory's full rate"
ELEMENTS: Final = 1 << 26
LAUNCHES: Final = 9


def run_probe(bench: Bench, elements: int = ELEMENTS) -> Report:
    """Measure both numbers of loads with every width.

    Raises:
        KernelsError: A kernel fails.
    """
    bench.tell(0.0, "4, 8 and 16 bytes a load")
    watch = Stopwatch(bench.device.index, bench.cache_dir)
    return make_report(measure_vector_copies(watch, elements, LAUNCHES), bench.hardware)


def make_report(readings: Sequence[MemoryReading], hardware: Hardware) -> Report:
    """Rates over the bytes of a load."""
    elements = readings[0].moved_bytes // 8
    panel = draw_rates(
        "read and written bytes",
        "bytes of a load",
        readings,
        powers_of_two=True,
        logarithmic=False,
    )
    return Report(
        name=NAME,
        title=f"out[i] = in[i] for {elements} elements of float32, 256 threads a block, each of "
        "which loads 4, 8 or 16 bytes, once or four times before its first store.",
        hardware=hardware,
        findings=(
            *name_wrong(f"{one.way} {one.step}" for one in readings if not one.right),
            "The memory's full rate takes enough bytes under way: rate · latency.",
        ),
        tables=(tabulate_rates("Copied bytes a second", "bytes of a load", readings),),
        plots=(Plot("", f"{NAME}: copies by wider loads, and more of them", (panel,)),),
        rows=make_rows("load_bytes", readings),
        passed=all(one.right for one in readings),
    )
