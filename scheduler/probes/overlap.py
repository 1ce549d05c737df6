"""Copies in, kernels and copies out at the same time, by the number of streams."""

from typing import Final

from wavetrim.kernels.overlap_probes import Timeline, measure_overlap
from wavetrim.kernels.stopwatch import Stopwatch
from wavetrim.scheduler.experiments.bench import Bench, Hardware
from wavetrim.scheduler.experiments.plot import Line, Panel, Plot
from wavetrim.scheduler.experiments.report import Report
from wavetrim.scheduler.experiments.table import Table, format_milliseconds, format_ratio
from wavetrim.scheduler.probes.links import format_size
from wavetrim.scheduler.probes.rates import name_wrong

NAME: Final = "overlap"
SHOWS: Final = "copies in, kernels and copies out of chunks, on one stream and on several"
SIZE_BYTES: Final = 256 << 20
CHUNKS: Final = 16
STREAMS: Final = (1, 2, 3, 4, 8)
RUNS: Final = 7


def run_probe(bench: Bench, size_bytes: int = SIZE_BYTES) -> Report:
    """Measure each number of streams.

    Raises:
        KernelsError: There is not enough memory, or a kernel or a copy fails.
    """
    bench.tell(0.0, f"{format_size(size_bytes)} in {CHUNKS} chunks")
    watch = Stopwatch(bench.device.index, bench.cache_dir)
    return make_report(measure_overlap(watch, size_bytes, CHUNKS, STREAMS, RUNS), bench.hardware)


def make_report(found: Timeline, hardware: Hardware) -> Report:
    """Times by streams, beside those of the parts."""
    parts = (
        ("copies in alone", found.in_seconds),
        ("kernels alone", found.kernel_seconds),
        ("copies out alone", found.out_seconds),
        ("one after the other", found.serial_seconds),
        ("the least", found.least_seconds),
    )
    cells = tuple(
        (
            str(one.streams),
            format_milliseconds(one.seconds),
            format_ratio(found.serial_seconds / one.seconds),
            format_ratio(found.least_seconds / one.seconds),
        )
        for one in found.readings
    )
    x = tuple(float(one.streams) for one in found.readings)
    lines = (
        Line("measured", x, tuple(one.seconds for one in found.readings)),
        Line("one after the other", x, tuple(found.serial_seconds for _ in x), colour=1),
        Line("the least", x, tuple(found.least_seconds for _ in x), colour=2),
    )
    size = format_size(found.size_bytes)
    panel = Panel(f"{size} in {found.chunks} chunks", "streams", "time", lines, y_unit="s")
    return Report(
        name=NAME,
        title=f"{size} of pinned memory go to the GPU in {found.chunks} chunks, have a kernel "
        "each, and come back; chunk c is in stream c mod streams.",
        hardware=hardware,
        findings=(
            *name_wrong(f"{one.streams} streams" for one in found.readings if not one.right),
            "The least: the slowest part without a pause, and one chunk of the two others.",
        ),
        tables=(
            Table("The parts, ms", ("part", "ms"), _show(parts)),
            Table("Streams", ("streams", "ms", "speed-up", "of the least"), cells),
        ),
        plots=(Plot("", f"{NAME}: copies beside kernels", (panel,)),),
        rows=tuple(
            {
                "streams": one.streams,
                "size_bytes": found.size_bytes,
                "chunks": found.chunks,
                "median_seconds": one.seconds,
                "in_seconds": found.in_seconds,
                "kernel_seconds": found.kernel_seconds,
                "out_seconds": found.out_seconds,
                "least_seconds": found.least_seconds,
                "right": one.right,
            }
            for one in found.readings
        ),
        passed=all(one.right for one in found.readings),
    )


def _show(parts: tuple[tuple[str, float], ...]) -> tuple[tuple[str, ...], ...]:
    return tuple((name, format_milliseconds(seconds)) for name, seconds in parts)
