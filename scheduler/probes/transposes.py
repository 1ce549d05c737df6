"""The three transposes: uncoalesced writes, bank conflicts, and neither."""

from collections.abc import Sequence
from typing import Final

from wavetrim.kernels.memory_probes import measure_transposes
from wavetrim.kernels.readings import MemoryReading
from wavetrim.kernels.stopwatch import Stopwatch
from wavetrim.scheduler.experiments.bench import Bench, Hardware
from wavetrim.scheduler.experiments.plot import Plot
from wavetrim.scheduler.experiments.report import Report
from wavetrim.scheduler.probes.rates import draw_rates, make_rows, name_wrong, tabulate_rates

NAME: Final = "transposes"
SHOWS: Final = "transposes: naive, through a 32 x 32 tile and through a 32 x 33 tile"
SIDES: Final = (1024, 2048, 4096, 8192)
LAUNCHES: Final = 9


def run_probe(bench: Bench, sides: Sequence[int] = SIDES) -> Report:
    """Transpose square matrices.

    Raises:
        KernelsError: A kernel fails.
    """
    watch = Stopwatch(bench.device.index, bench.cache_dir)
    readings: list[MemoryReading] = []
    for done, side in enumerate(sides):
        bench.tell(done / len(sides), f"{side} x {side}")
        readings += measure_transposes(watch, side, side, LAUNCHES)
    return make_report(readings, bench.hardware)


def make_report(readings: Sequence[MemoryReading], hardware: Hardware) -> Report:
    """Rates of the three and of a plain copy, over the matrix."""
    panel = draw_rates("read and written bytes", "rows and columns", readings, powers_of_two=True)
    return Report(
        name=NAME,
        title="Transposes of square float32 matrices, blocks of 32 × 32 threads, beside a plain "
        "copy.",
        hardware=hardware,
        findings=(
            *name_wrong(f"{one.way} {one.step}" for one in readings if not one.right),
            "naive: writes are not coalesced.",
            "shared: 32 × 32 tile, 32-fold bank conflicts; padded: 32 × 33 tile, none.",
        ),
        tables=(tabulate_rates("Read and written bytes a second", "side", readings),),
        plots=(Plot("", f"{NAME}: three ways, and a copy", (panel,)),),
        rows=make_rows("side", readings),
        passed=all(one.right for one in readings),
    )
