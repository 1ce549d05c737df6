"""Strided copies: what is left of the memory's rate when elements lie apart."""

from collections.abc import Sequence
from typing import Final

from wavetrim.kernels.memory_probes import COPY_ELEMENTS, measure_strided_copies
from wavetrim.kernels.readings import MemoryReading
from wavetrim.kernels.stopwatch import Stopwatch
from wavetrim.scheduler.experiments.bench import Bench, Hardware
from wavetrim.scheduler.experiments.plot import Plot
from wavetrim.scheduler.experiments.report import Report
from wavetrim.scheduler.probes.rates import draw_rates, make_rows, name_wrong, tabulate_rates
from wavetrim.scheduler.probes.reference import STRIDED_GBYTES

NAME: Final = "strides"
SHOWS: Final = "strided copies, out[i*s] = in[i*s], GB/s over the stride"
STRIDES: Final = (1, 2, 4, 8, 16, 32)
LAUNCHES: Final = 9

_ITEM_BYTES: Final = 4
_USABLE: Final = 0.75  # of the GPU's memory; others may hold some of it


def run_probe(bench: Bench, elements: int = COPY_ELEMENTS) -> Report:
    """Measure every stride for which the GPU has room.

    Raises:
        KernelsError: The kernel fails.
    """
    memory_bytes = bench.gpu_memory_bytes or int(bench.device.memory_bytes * _USABLE)
    strides = fit_strides(elements, memory_bytes)
    bench.tell(0.0, f"strides {', '.join(map(str, strides))}")
    watch = Stopwatch(bench.device.index, bench.cache_dir)
    return make_report(measure_strided_copies(watch, elements, strides, LAUNCHES), bench.hardware)


def fit_strides(elements: int, memory_bytes: int) -> tuple[int, ...]:
    """Those of `STRIDES` whose source and target fit the memory; the first in any case."""
    room = memory_bytes // (2 * _ITEM_BYTES * elements)
    return tuple(stride for stride in STRIDES if stride <= max(1, room))


def make_report(readings: Sequence[MemoryReading], hardware: Hardware) -> Report:
    """Rates over the stride, beside the reference's."""
    elements = readings[0].moved_bytes // (2 * _ITEM_BYTES)
    left_out = [stride for stride in STRIDES if stride > readings[-1].step]
    too_large = f"The GPU has no room for the strides {left_out}." if left_out else ""
    title = f"out[i·s] = in[i·s] for {elements} elements of float32, 256 threads a block."
    panel = draw_rates(
        "copied elements only", "stride s", readings, STRIDED_GBYTES, powers_of_two=True
    )
    return Report(
        name=NAME,
        title=title,
        hardware=hardware,
        findings=tuple(
            filter(
                None,
                (
                    *name_wrong(f"{one.way} {one.step}" for one in readings if not one.right),
                    too_large,
                ),
            )
        ),
        tables=(tabulate_rates("Copied bytes a second", "stride", readings, STRIDED_GBYTES),),
        plots=(Plot("", f"{NAME}: copies of elements that lie s apart", (panel,)),),
        rows=make_rows("stride", readings, STRIDED_GBYTES),
        passed=all(one.right for one in readings),
    )
