"""Register pressure: registers that launch bounds leave to a thread, spills, and their cost."""

from collections.abc import Sequence
from typing import Final

from wavetrim.kernels.timing.readings import RegisterReading
from wavetrim.lab.gpu.catalog import REGISTER_THREADS, REGISTER_VALUES
from wavetrim.lab.gpu.cycles import measure_registers
from wavetrim.lab.gpu.stopwatch import Stopwatch
from wavetrim.lab.probes.rates import name_wrong
from wavetrim.lab.reports.bench import Bench, Hardware
from wavetrim.lab.reports.plot import Line, Panel, Plot
from wavetrim.lab.reports.report import Report
from wavetrim.lab.reports.table import Table, format_milliseconds, format_ratio

NAME: Final = "registers"
SHOWS: Final = "launch bounds: registers, spills to local memory, and time, by blocks promised"
LAUNCHES: Final = 7


def run_probe(bench: Bench) -> Report:
    """Measure the kernel compiled for each number of blocks."""
    bench.tell(0.0, "launch bounds")
    watch = Stopwatch(bench.device.index, bench.cache_dir)
    return make_report(measure_registers(watch, bench.cache_dir, LAUNCHES), bench.hardware)


def make_report(readings: Sequence[RegisterReading], hardware: Hardware) -> Report:
    """The report: registers, spills and times."""
    first = readings[0].seconds
    cells = tuple(
        (
            str(one.blocks_per_sm),
            str(one.registers),
            str(one.spill_bytes),
            format_milliseconds(one.seconds),
            format_ratio(first / one.seconds),
        )
        for one in readings
    )
    head = ("blocks a multiprocessor", "registers", "spilled bytes", "ms", "speed-up")
    x = tuple(float(one.blocks_per_sm) for one in readings)
    line = Line("time", x, tuple(one.seconds for one in readings))
    panel = Panel("the same work", "blocks promised", "time", (line,), y_unit="s")
    return Report(
        name=NAME,
        title=f"A kernel of {REGISTER_THREADS} threads a block, each of which holds "
        f"{REGISTER_VALUES} numbers, with launch bounds for more and more blocks a multiprocessor.",
        hardware=hardware,
        findings=name_wrong(f"{one.blocks_per_sm} blocks" for one in readings if not one.right),
        tables=(Table("Launch bounds", head, cells),),
        plots=(Plot("", f"{NAME}: launch bounds and time", (panel,)),),
        rows=tuple(
            {
                "blocks_per_sm": one.blocks_per_sm,
                "registers": one.registers,
                "spill_bytes": one.spill_bytes,
                "median_seconds": one.seconds,
                "least_seconds": min(one.run_seconds),
                "right": one.right,
            }
            for one in readings
        ),
        passed=all(one.right for one in readings),
    )
