"""Bank conflicts: what the reads of a warp cost when words share a bank of shared memory."""

import math
from collections.abc import Sequence
from typing import Final

from wavetrim.kernels.cycle_probes import measure_banks
from wavetrim.kernels.readings import CycleReading
from wavetrim.kernels.stopwatch import Stopwatch
from wavetrim.scheduler.experiments.bench import Bench, Hardware
from wavetrim.scheduler.experiments.plot import Plot
from wavetrim.scheduler.experiments.report import Report
from wavetrim.scheduler.experiments.table import Table, format_ratio
from wavetrim.scheduler.probes.cycles import draw_cycles, make_rows, tabulate_cycles
from wavetrim.scheduler.probes.rates import name_wrong

NAME: Final = "banks"
SHOWS: Final = "bank conflicts of shared memory, broadcasts and multicasts, in cycles"
STRIDES: Final = tuple(range(34))
GROUPS: Final = (2, 4, 8, 16)
LAUNCHES: Final = 5

_BANKS: Final = 32


def run_probe(bench: Bench) -> Report:
    """Measure strides, of which 0 is a broadcast, and multicasts to groups of lanes.

    Raises:
        KernelsError: The kernel fails.
    """
    bench.tell(0.0, "strides and groups")
    watch = Stopwatch(bench.device.index, bench.cache_dir)
    cases = [*((stride, 1) for stride in STRIDES), *((1, group) for group in GROUPS)]
    return make_report(measure_banks(watch, cases, LAUNCHES), bench.hardware)


def count_turns(stride: int) -> int:
    """Turns that the banks take for words that lie so far apart: the degree of the conflict."""
    return math.gcd(stride, _BANKS) if stride else 1


def make_report(readings: Sequence[CycleReading], hardware: Hardware) -> Report:
    """Cycles beside the degree of the conflict, and those of multicasts."""
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
        name=NAME,
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
        plots=(Plot("", f"{NAME}: reads of 32 lanes", (panel,)),),
        rows=make_rows("step", readings),
        passed=all(one.right for one in readings),
    )
