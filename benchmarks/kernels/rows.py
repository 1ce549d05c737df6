"""The rows of benchmarks/results/kernels-<gpu>.json: made from turns, and read again."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.common.results import Results, ResultsError, read_results
from benchmarks.common.shapes import Product, Shape, count_flops
from wavetrim.kernels.spec import KernelSpec


@dataclass(frozen=True, slots=True)
class Row(Product):
    """One kernel at one product.

    Attributes:
        kernel: Its name in the catalog.
        tile: Its tile there.
        tflops: 1e12 multiplications and additions a second, at the median.
        ratio_to_cublas: Its speed over cuBLAS's in the same turns.
        median_seconds: Median of the turns.
        turns: Number of turns.
    """

    kernel: str
    tile: str
    tflops: float
    ratio_to_cublas: float
    median_seconds: float
    turns: int

    def __str__(self) -> str:
        label = f"{self.kernel} {self.tile} {self.dtype}"
        return (
            f"{label:<32} {self.m}x{self.n}x{self.k}: {self.tflops:7.2f} TFLOP/s, "
            f"{self.ratio_to_cublas:.3f} of cuBLAS, {self.turns} turns"
        )


@dataclass(slots=True)
class Score:
    """The measurements of one kernel.

    Attributes:
        launches: Launches in a turn.
        seconds: Mean of a launch, for every turn.
    """

    launches: int
    seconds: list[float] = field(default_factory=list)

    @property
    def spent_seconds(self) -> float:
        """GPU time of all turns."""
        return sum(self.seconds) * self.launches


def make_rows(shape: Shape, scores: Mapping[KernelSpec, Score]) -> list[Row]:
    """The rows of one contest; none without cuBLAS, because nothing is compared then."""
    medians = {spec: statistics.median(score.seconds) for spec, score in scores.items()}
    cublas_seconds = next((of for spec, of in medians.items() if spec.is_cublas), None)
    if cublas_seconds is None:
        return []
    return [
        Row(
            *(*shape, spec.dtype, spec.name, str(spec.tile)),
            tflops=count_flops(shape) / medians[spec] / 1e12,
            ratio_to_cublas=cublas_seconds / medians[spec],
            median_seconds=medians[spec],
            turns=len(score.seconds),
        )
        for spec, score in scores.items()
    ]


def describe(results: Results[Row]) -> str:
    """What was measured: hardware, versions, commit."""
    hardware, versions = results.document["hardware"], results.document["versions"]
    return (
        f"{hardware['gpu']}, driver {hardware['driver']}, cuBLAS {versions['nvidia-cublas']}, "
        f"NVRTC {versions['nvidia-cuda-nvrtc']}, commit {results.document['commit']}"
    )


def read_kernel_results(folder: Path, gpu: str = "*") -> list[Results[Row]]:
    """Every kernels-<gpu>.json of a folder, or one GPU's; the model of the highest number first."""
    found = read_results(folder, f"kernels-{gpu}.json", Row, "make bench-kernels")
    if not found:
        raise ResultsError(f"{folder}: no kernels-{gpu}.json; `make bench-kernels` writes one")
    return found[::-1]
