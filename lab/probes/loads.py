"""Cached, non-cached, read-only and texture loads: over strides, offsets and shared neighbours."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from wavetrim.kernels.timing.readings import MemoryReading
from wavetrim.lab.gpu.memory import COPY_ELEMENTS, measure_loads
from wavetrim.lab.gpu.stopwatch import Stopwatch
from wavetrim.lab.probes.rates import draw_rates, make_rows, name_wrong, tabulate_rates
from wavetrim.lab.reports.bench import Bench, Hardware
from wavetrim.lab.reports.plot import Plot
from wavetrim.lab.reports.report import Report

NAME: Final = "loads"
SHOWS: Final = "cached, non-cached, read-only and texture loads, over stride, offset and taps"
LAUNCHES: Final = 9

SWEEPS: Final[dict[str, tuple[int, ...]]] = {
    "stride": (1, 2, 4, 8, 16),
    "offset": (0, 1, 8, 16, 32),
    "taps": (1, 2, 4, 8, 16),
}
"""Values of each varied quantity, with the two others at their smallest."""

_LEAST: Final = {"stride": 1, "offset": 0, "taps": 1}
_NOTES: Final = (
    "cached: ld.global.ca, through L1 with its lines of 128 bytes.",
    "non-cached: ld.global.cg, from L2 in segments of 32 bytes.",
    "read-only: ld.global.nc, as __ldg.",
    "texture: a one-dimensional texture, of at most 2^27 elements.",
    "Rates count what threads ask for; neighbouring threads share most of several taps.",
)


@dataclass(frozen=True, slots=True)
class Sweep:
    """Readings over one varied quantity, which is their step."""

    varied: str
    readings: tuple[MemoryReading, ...]


def run_probe(bench: Bench, elements: int = COPY_ELEMENTS) -> Report:
    """Measure the three sweeps."""
    watch = Stopwatch(bench.device.index, bench.cache_dir)
    sweeps = []
    for done, (varied, values) in enumerate(SWEEPS.items()):
        bench.tell(done / len(SWEEPS), varied)
        cases = [list_case(varied, value) for value in values]
        found = measure_loads(watch, elements, cases, LAUNCHES)
        readings = tuple(replace(one, step=values[one.step]) for case in found for one in case)
        sweeps.append(Sweep(varied, readings))
    return make_report(sweeps, bench.hardware)


def list_case(varied: str, value: int) -> tuple[int, int, int]:
    """(stride, offset, taps), all at their smallest except `varied`."""
    stride, offset, taps = (_LEAST | {varied: value}).values()
    return stride, offset, taps


def make_report(sweeps: Sequence[Sweep], hardware: Hardware) -> Report:
    """The report: a table and a panel for each sweep."""
    readings = [one for sweep in sweeps for one in sweep.readings]
    panels = tuple(
        draw_rates(
            f"over the {sweep.varied}",
            sweep.varied,
            sweep.readings,
            powers_of_two=sweep.varied != "offset",
        )
        for sweep in sweeps
    )
    rows = tuple(
        {"varied": sweep.varied, **row}
        for sweep in sweeps
        for row in make_rows("value", sweep.readings)
    )
    return Report(
        name=NAME,
        title="out[i] = Σ in[i·stride + offset + t] over the taps t, float32, 256 threads a block.",
        hardware=hardware,
        findings=(
            *name_wrong(f"{one.way} {one.step}" for one in readings if not one.right),
            *_NOTES,
        ),
        tables=tuple(
            tabulate_rates(f"Over the {sweep.varied}", sweep.varied, sweep.readings)
            for sweep in sweeps
        ),
        plots=(Plot("", f"{NAME}: ways to load from global memory", panels, same_y=True),),
        rows=rows,
        passed=all(one.right for one in readings),
    )
