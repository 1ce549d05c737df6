"""Concurrency on a GPU: copies with kernels by the number of streams, and kernels with kernels."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from wavetrim.lab.gpu.overlap import (
    LaunchReading,
    Timeline,
    measure_kernels_at_once,
    measure_overlap,
)
from wavetrim.lab.gpu.stopwatch import Stopwatch
from wavetrim.lab.probes.links import format_size
from wavetrim.lab.probes.rates import name_wrong
from wavetrim.lab.reports.bench import Bench, Hardware
from wavetrim.lab.reports.plot import Line, Panel, Plot
from wavetrim.lab.reports.report import Report
from wavetrim.lab.reports.table import Table, format_digits, format_milliseconds, format_ratio

OVERLAP: Final = "overlap"
OVERLAP_SHOWS: Final = "copies in, kernels and copies out of chunks, on one stream and on several"
SIZE_BYTES: Final = 256 << 20
CHUNKS: Final = 16
STREAMS: Final = (1, 2, 3, 4, 8)
RUNS: Final = 7

LAUNCHES: Final = "launches"
LAUNCHES_SHOW: Final = (
    "small kernels in one stream and in many, and how soon launches return to the host"
)
COUNTS: Final = (1, 2, 4, 8, 16, 32)


def run_overlap(bench: Bench) -> Report:
    """Measure each number of streams."""
    bench.tell(0.0, f"{format_size(SIZE_BYTES)} in {CHUNKS} chunks")
    watch = Stopwatch(bench.device.index, bench.cache_dir)
    return report_overlap(measure_overlap(watch, SIZE_BYTES, CHUNKS, STREAMS, RUNS), bench.hardware)


def report_overlap(found: Timeline, hardware: Hardware) -> Report:
    """The report: times of the parts, and by number of streams."""
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
        name=OVERLAP,
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
        plots=(Plot("", f"{OVERLAP}: copies beside kernels", (panel,)),),
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


def run_launches(bench: Bench) -> Report:
    """Measure each number of kernels."""
    bench.tell(0.0, f"{', '.join(map(str, COUNTS))} kernels")
    watch = Stopwatch(bench.device.index, bench.cache_dir)
    return report_launches(measure_kernels_at_once(watch, COUNTS, RUNS), bench.hardware)


def report_launches(readings: Sequence[LaunchReading], hardware: Hardware) -> Report:
    """The report: times in one and in many streams by number of kernels."""
    cells = tuple(
        (
            str(one.kernels),
            format_milliseconds(one.one_stream_seconds),
            format_milliseconds(one.many_streams_seconds),
            format_ratio(one.one_stream_seconds / one.many_streams_seconds),
            format_digits(1e6 * one.enqueue_seconds / one.kernels),
        )
        for one in readings
    )
    x = tuple(float(one.kernels) for one in readings)
    lines = (
        Line("one stream", x, tuple(one.one_stream_seconds for one in readings)),
        Line("a stream each", x, tuple(one.many_streams_seconds for one in readings), colour=1),
        Line("calls", x, tuple(one.enqueue_seconds for one in readings), colour=2),
    )
    panel = Panel(
        "one block of about 1 ms each",
        "kernels",
        "time",
        lines,
        powers_of_two=True,
        logarithmic=True,
        y_unit="s",
    )
    head = ("kernels", "ms, one stream", "ms, a stream each", "speed-up", "µs a call")
    return Report(
        name=LAUNCHES,
        title="Kernels of one block and about a millisecond, from the first call to the last "
        "one's end.",
        hardware=hardware,
        findings=("A call returns before its kernel has run: the host may compute meanwhile.",),
        tables=(Table("Kernels at once", head, cells),),
        plots=(Plot("", f"{LAUNCHES}: kernels beside kernels", (panel,)),),
        rows=tuple(map(asdict, readings)),
        passed=True,
    )
