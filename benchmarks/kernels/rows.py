"""The rows of benchmarks/results/kernels-<gpu>.json: made from turns, and read again."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.common.results import ResultsError, read_document, read_rows
from benchmarks.common.shapes import ProductRow, Shape, count_flops
from benchmarks.common.turns import find_spread
from benchmarks.kernels.meter import Reading
from benchmarks.kernels.suite import Contestant
from wavetrim.kernels.spec import KernelSpec


@dataclass(frozen=True, slots=True)
class Row(ProductRow):
    """One kernel at one product.

    Attributes:
        kernel: Its name in the catalog.
        tile: Its tile there.
        accuracy: Its accuracy in the catalog.
        sms: Multiprocessors that it could use.
        tflops: 1e12 multiplications and additions a second, at the median.
        ratio_to_cublas: Its speed over cuBLAS's in the same turns, with as many multiprocessors;
            None if cuBLAS did not run.
        max_relative_error: Largest error of the checked elements, relative to |A|·|B|.
        cublas_max_relative_error: The same of cuBLAS.
        median_seconds: Median of the turns.
        spread: Slowest minus fastest turn, over the median.
        turns: Number of turns.
        launches: Launches in a turn, which takes their mean.
        same_bits: Whether the product had the same bits twice.
        clock_mhz: Clock of the multiprocessors during its turns; None if it cannot be read.
        power_watts: Power that the GPU drew; None if it cannot be read.
        rate_share: Of a kernel held to some multiprocessors: its rate over their share of the rate
            with all of them.
    """

    kernel: str
    tile: str
    accuracy: str
    sms: int
    tflops: float
    ratio_to_cublas: float | None
    max_relative_error: float
    cublas_max_relative_error: float | None
    median_seconds: float
    spread: float
    turns: int
    launches: int | None = None
    same_bits: bool | None = None
    clock_mhz: float | None = None
    power_watts: float | None = None
    rate_share: float | None = None

    @property
    def entry(self) -> tuple[str, str, str]:
        """The kernel: name, tile, element type."""
        return self.kernel, self.tile, self.dtype

    @property
    def is_held(self) -> bool:
        """Whether it was held to some multiprocessors, outside the suite."""
        return self.rate_share is not None


@dataclass(slots=True)
class Score:
    """The measurements of one contestant.

    Attributes:
        launches: Launches in a turn.
        max_relative_error: Largest error of the elements that are checked.
        same_bits: Whether both its products had the same bits.
        seconds: Mean of a launch, for every turn.
        readings: Clock and power during the turns.
    """

    launches: int
    max_relative_error: float
    same_bits: bool
    seconds: list[float] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)

    @property
    def spent_seconds(self) -> float:
        """GPU time of all turns."""
        return sum(self.seconds) * self.launches


def find_rates(shape: Shape, scores: Mapping[Contestant, Score]) -> dict[Contestant, float]:
    """TFLOP/s of each, at the median of its turns."""
    return {
        one: count_flops(shape) / statistics.median(score.seconds) / 1e12
        for one, score in scores.items()
    }


def make_rows(
    shape: Shape,
    scores: Mapping[Contestant, Score],
    sm_count: int,
    full_rates: Mapping[KernelSpec, float] | None = None,
) -> list[Row]:
    """The rows of one contest.

    Args:
        shape: M, N, K.
        scores: The measurements of each contestant.
        sm_count: Multiprocessors of the GPU.
        full_rates: TFLOP/s that all multiprocessors reached, for kernels held to some of them.
    """
    rates = find_rates(shape, scores)
    cublas = {one.sms: one for one in scores if one.spec.source is None}
    rows = []
    for one, score in scores.items():
        spec, rate, peer = one.spec, rates[one], cublas.get(one.sms)
        median = statistics.median(score.seconds)
        full = full_rates.get(spec) if full_rates else None
        rows.append(
            Row(
                *(*shape, spec.dtype, spec.name, str(spec.tile), spec.accuracy),
                sms=one.sms or sm_count,
                tflops=rate,
                ratio_to_cublas=rate / rates[peer] if peer else None,
                max_relative_error=score.max_relative_error,
                cublas_max_relative_error=scores[peer].max_relative_error if peer else None,
                median_seconds=median,
                spread=find_spread(score.seconds, median),
                turns=len(score.seconds),
                launches=score.launches,
                same_bits=score.same_bits,
                clock_mhz=_find_median([reading.clock_mhz for reading in score.readings]),
                power_watts=_find_median([reading.power_watts for reading in score.readings]),
                rate_share=rate / (full * one.sms / sm_count) if one.sms and full else None,
            )
        )
    return rows


def _find_median(values: Sequence[float | None]) -> float | None:
    told = [value for value in values if value is not None]
    return statistics.median(told) if told else None


def describe_row(row: Row) -> str:
    """A line about a row."""
    parts = [f"{row.tflops:7.2f} TFLOP/s"]
    if row.ratio_to_cublas is not None:
        parts.append(f"{row.ratio_to_cublas:.3f} of cuBLAS")
    if row.rate_share is not None:
        parts.append(f"{row.rate_share:.3f} of its share")
    parts += [f"error {row.max_relative_error:.1e}", f"{row.turns} turns"]
    if row.clock_mhz is not None:
        parts.append(f"{row.clock_mhz:.0f} MHz")
    if row.power_watts is not None:
        parts.append(f"{row.power_watts:.0f} W")
    if not row.same_bits:
        parts.append("OTHER BITS THE SECOND TIME")
    held = f", {row.sms} multiprocessors" if row.is_held else ""
    label = f"{' '.join(row.entry)}{held}"
    return f"{label:<32} {row.m}x{row.n}x{row.k}: {', '.join(parts)}"


@dataclass(frozen=True, slots=True)
class Results:
    """A results file.

    Attributes:
        name: "h200" of kernels-h200.json.
        document: All of it.
        rows: Its rows.
    """

    name: str
    document: dict[str, Any]
    rows: tuple[Row, ...]

    @property
    def caption(self) -> str:
        """What was measured: hardware, versions, commit."""
        hardware, versions = self.document["hardware"], self.document["versions"]
        return (
            f"{hardware['gpu']}, driver {hardware['driver']}, cuBLAS {versions['nvidia-cublas']}, "
            f"NVRTC {versions['nvidia-cuda-nvrtc']}, commit {self.document['commit']}"
        )


def find_results(folder: Path, name: str) -> Results:
    """One file of a folder.

    Raises:
        ResultsError: It is not there, or a file is no JSON or lacks something.
    """
    for one in read_results(folder):
        if one.name == name:
            return one
    raise ResultsError(f"{folder}: no kernels-{name}.json; `make bench-kernels` writes one")


def read_results(folder: Path) -> list[Results]:
    """Every kernels-<gpu>.json of a folder, the newest model first by its number.

    Raises:
        ResultsError: There is none, or one of them is no JSON or lacks something.
    """
    found = []
    for file in sorted(folder.glob("kernels-*.json"), reverse=True):
        with read_document(file, "make bench-kernels") as document:
            rows = read_rows(Row, document["rows"])
            found.append(Results(file.stem.removeprefix("kernels-"), document, rows))
            if not (rows and document["compiled"] and found[-1].caption):
                raise ValueError("it has no rows, or no compiler's reports")
    if not found:
        raise ResultsError(f"{folder}: no kernels-<gpu>.json; `make bench-kernels` writes one")
    return found
