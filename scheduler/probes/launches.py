"""Several kernels at once, and how soon a launch gives the host its thread back."""

from collections.abc import Sequence
from typing import Final

from wavetrim.kernels.overlap_probes import LaunchReading, measure_kernels_at_once
from wavetrim.kernels.stopwatch import Stopwatch
from wavetrim.scheduler.experiments.bench import Bench, Hardware
from wavetrim.scheduler.experiments.plot import Line, Panel, Plot
from wavetrim.scheduler.experiments.report import Report
from wavetrim.scheduler.experiments.table import (
    Table,
    format_digits,
    format_milliseconds,
    format_ratio,
)

NAME: Final = "launches"
SHOWS: Final = "small kernels in one stream and in many, and how soon launches return to the host"
COUNTS: Final = (1, 2, 4, 8, 16, 32)
RUNS: Final = 7


def run_probe(bench: Bench) -> Report:
    """Measure every number of kernels.

    Raises:
        KernelsError: The kernel fails.
    """
    bench.tell(0.0, f"{', '.join(map(str, COUNTS))} kernels")
    watch = Stopwatch(bench.device.index, bench.cache_dir)
    return make_report(measure_kernels_at_once(watch, COUNTS, RUNS), bench.hardware)


def make_report(readings: Sequence[LaunchReading], hardware: Hardware) -> Report:
    """Times of both ways over the number of kernels."""
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
        name=NAME,
        title="Kernels of one block and about a millisecond, from the first call to the last "
        "one's end.",
        hardware=hardware,
        findings=("A call returns before its kernel has run: the host may compute meanwhile.",),
        tables=(Table("Kernels at once", head, cells),),
        plots=(Plot("", f"{NAME}: kernels beside kernels", (panel,)),),
        rows=tuple(
            {
                "kernels": one.kernels,
                "enqueue_seconds": one.enqueue_seconds,
                "one_stream_seconds": one.one_stream_seconds,
                "many_streams_seconds": one.many_streams_seconds,
            }
            for one in readings
        ),
        passed=True,
    )
