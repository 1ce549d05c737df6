"""Probes of copies within the GPU: rates by stride, offset, width of loads, pitch and transpose."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from wavetrim.kernels.timing.readings import MemoryReading
from wavetrim.lab.gpu.memory import (
    COPY_ELEMENTS,
    measure_offset_copies,
    measure_pitched_copies,
    measure_strided_copies,
    measure_transposes,
    measure_vector_copies,
)
from wavetrim.lab.gpu.stopwatch import Stopwatch
from wavetrim.lab.probes.rates import draw_rates, make_rows, name_wrong, tabulate_rates
from wavetrim.lab.reports.bench import Bench, Hardware
from wavetrim.lab.reports.plot import Plot
from wavetrim.lab.reports.report import Report

STRIDES: Final = (1, 2, 4, 8, 16, 32)
OFFSETS: Final = (0, 1, 2, 4, 8, 12, 16, 24, 32)
WIDTHS: Final = (250, 500, 1000, 1021, 1024, 2047, 4095)
SIDES: Final = (1024, 2048, 4096, 8192)
VECTOR_ELEMENTS: Final = 1 << 26
LAUNCHES: Final = 9

STRIDED_GBYTES: Final = {1: 106.6, 2: 34.8, 8: 7.9, 16: 4.9, 32: 2.7}
"""The reference's rates of out[i·s] = in[i·s], in 1e9 bytes a second by the stride s: 16,776,960
floats, blocks of 256."""

OFFSET_GBYTES: Final = {0: 106.6, 1: 72.2, 8: 78.2, 16: 83.4, 32: 105.7}
"""The reference's rates of out[i + o] = in[i + o], likewise, by the offset o."""

_ITEM_BYTES: Final = 4
_USABLE: Final = 0.75  # share of the GPU's memory to use: other processes may use some; chosen


@dataclass(frozen=True, slots=True)
class CopyProbe:
    """One kind of copy.

    Attributes:
        name: Name in the command.
        shows: Description for the command's help.
        measure: Takes the readings.
        title: What is computed; "{elements}" is replaced by their number.
        table: Title of the table.
        step: Name of the varied quantity in the table.
        column: Its name in the CSV file.
        panel: Title of the plot's panel.
        x_label: Its name in the plot.
        plot: Title of the plot.
        note: Makes sentences about the findings.
        reference: The reference's rates in 1e9 bytes a second, by the varied quantity.
        powers_of_two: Whether the varied quantity is drawn on a logarithmic axis.
        logarithmic: Whether rates are drawn on a logarithmic axis.
    """

    name: str
    shows: str
    measure: Callable[[Bench, Stopwatch], Sequence[MemoryReading]]
    title: str
    table: str
    step: str
    column: str
    panel: str
    x_label: str
    plot: str
    note: Callable[[Sequence[MemoryReading]], tuple[str, ...]] = lambda _: ()
    reference: Mapping[int, float] | None = None
    powers_of_two: bool = False
    logarithmic: bool = True

    def run(self, bench: Bench) -> Report:
        """Measure all steps."""
        watch = Stopwatch(bench.device.index, bench.cache_dir)
        return self.make_report(self.measure(bench, watch), bench.hardware)

    def make_report(self, readings: Sequence[MemoryReading], hardware: Hardware) -> Report:
        """The report: rates over the varied quantity, with the reference's."""
        elements = readings[0].moved_bytes // (2 * _ITEM_BYTES)
        panel = draw_rates(
            self.panel,
            self.x_label,
            readings,
            self.reference,
            powers_of_two=self.powers_of_two,
            logarithmic=self.logarithmic,
        )
        wrong = name_wrong(f"{one.way} {one.step}" for one in readings if not one.right)
        return Report(
            name=self.name,
            title=self.title.format(elements=elements),
            hardware=hardware,
            findings=(*wrong, *self.note(readings)),
            tables=(tabulate_rates(self.table, self.step, readings, self.reference),),
            plots=(Plot("", f"{self.name}: {self.plot}", (panel,)),),
            rows=make_rows(self.column, readings, self.reference),
            passed=all(one.right for one in readings),
        )


def fit_strides(elements: int, memory_bytes: int) -> tuple[int, ...]:
    """The first of `STRIDES`, and all others whose source and target fit the memory."""
    most = memory_bytes // (2 * _ITEM_BYTES * elements)
    return tuple(stride for stride in STRIDES if stride <= max(1, most))


def _measure_strides(bench: Bench, watch: Stopwatch) -> Sequence[MemoryReading]:
    memory_bytes = bench.gpu_memory_bytes or int(bench.device.memory_bytes * _USABLE)
    strides = fit_strides(COPY_ELEMENTS, memory_bytes)
    bench.tell(0.0, f"strides {', '.join(map(str, strides))}")
    return measure_strided_copies(watch, COPY_ELEMENTS, strides, LAUNCHES)


def _name_left_out(readings: Sequence[MemoryReading]) -> tuple[str, ...]:
    left_out = [stride for stride in STRIDES if stride > readings[-1].step]
    return (f"The GPU has no room for the strides {left_out}.",) if left_out else ()


def _measure_offsets(bench: Bench, watch: Stopwatch) -> Sequence[MemoryReading]:
    bench.tell(0.0, f"offsets {', '.join(map(str, OFFSETS))}")
    return measure_offset_copies(watch, COPY_ELEMENTS, OFFSETS, LAUNCHES)


def _measure_vectors(bench: Bench, watch: Stopwatch) -> Sequence[MemoryReading]:
    bench.tell(0.0, "4, 8 and 16 bytes a load")
    return measure_vector_copies(watch, VECTOR_ELEMENTS, LAUNCHES)


def _measure_pitches(bench: Bench, watch: Stopwatch) -> Sequence[MemoryReading]:
    bench.tell(0.0, f"widths {', '.join(map(str, WIDTHS))}")
    return measure_pitched_copies(watch, COPY_ELEMENTS, WIDTHS, LAUNCHES)


def _measure_transposes(bench: Bench, watch: Stopwatch) -> Sequence[MemoryReading]:
    readings: list[MemoryReading] = []
    for done, side in enumerate(SIDES):
        bench.tell(done / len(SIDES), f"{side} x {side}")
        readings += measure_transposes(watch, side, side, LAUNCHES)
    return readings


STRIDED: Final = CopyProbe(
    name="strides",
    shows="strided copies, out[i*s] = in[i*s], GB/s over the stride",
    measure=_measure_strides,
    title="out[i·s] = in[i·s] for {elements} elements of float32, 256 threads a block.",
    table="Copied bytes a second",
    step="stride",
    column="stride",
    panel="copied elements only",
    x_label="stride s",
    plot="copies of elements that lie s apart",
    note=_name_left_out,
    reference=STRIDED_GBYTES,
    powers_of_two=True,
)

OFFSET: Final = CopyProbe(
    name="offsets",
    shows="offset copies, out[i+o] = in[i+o], GB/s over the offset",
    measure=_measure_offsets,
    title="out[i+o] = in[i+o] for {elements} elements of float32, 256 threads a block.",
    table="Copied bytes a second",
    step="offset",
    column="offset",
    panel="copied elements only",
    x_label="offset o",
    plot="copies that begin o elements later",
    reference=OFFSET_GBYTES,
)

VECTORS: Final = CopyProbe(
    name="vectors",
    shows="copies by 4, 8 and 16 bytes a load, 1 and 4 loads a thread: the memory's full rate",
    measure=_measure_vectors,
    title="out[i] = in[i] for {elements} elements of float32, 256 threads a block, each of "
    "which loads 4, 8 or 16 bytes, once or four times before its first store.",
    table="Copied bytes a second",
    step="bytes of a load",
    column="load_bytes",
    panel="read and written bytes",
    x_label="bytes of a load",
    plot="copies by wider loads, and more of them",
    note=lambda _: ("The memory's full rate takes enough bytes under way: rate · latency.",),
    powers_of_two=True,
    logarithmic=False,
)

PITCHED: Final = CopyProbe(
    name="pitches",
    shows="copies of matrices, rows without gaps and pitched, over the width",
    measure=_measure_pitches,
    title="Copies of float32 matrices; tight: rows without gaps, pitched: rows that begin at "
    "multiples of 512 bytes.",
    table="Copied bytes a second",
    step="columns",
    column="columns",
    panel="elements of the matrix only",
    x_label="columns",
    plot="copies of matrices by their width",
    logarithmic=False,
)

TRANSPOSES: Final = CopyProbe(
    name="transposes",
    shows="transposes: naive, through a 32 x 32 tile and through a 32 x 33 tile",
    measure=_measure_transposes,
    title="Transposes of square float32 matrices, blocks of 32 × 32 threads, beside a plain copy.",
    table="Read and written bytes a second",
    step="side",
    column="side",
    panel="read and written bytes",
    x_label="rows and columns",
    plot="three ways, and a copy",
    note=lambda _: (
        "naive: writes are not coalesced.",
        "shared: 32 × 32 tile, 32-fold bank conflicts; padded: 32 × 33 tile, none.",
    ),
    powers_of_two=True,
)
