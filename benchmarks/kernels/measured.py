"""The rows of benchmarks/results/kernels-<gpu>.json, written and read."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.common.results import ResultsError, read_document, read_rows

Shape = tuple[int, int, int]
"""M, N, K."""


@dataclass(frozen=True, slots=True)
class Row:
    """One kernel at one product.

    Attributes:
        kernel: Its name in the catalog.
        tile: Its tile there.
        dtype: Element type.
        accuracy: Its accuracy in the catalog.
        m: Rows of C.
        n: Columns of C.
        k: Columns of A.
        sms: Multiprocessors that it could use.
        tflops: 1e12 multiplications and additions a second, at the median.
        ratio_to_cublas: How many times as fast as cuBLAS in the same turns, with as many
            multiprocessors; None where cuBLAS did not run.
        max_relative_error: Largest error of the elements looked at, relative to |A|·|B|.
        cublas_max_relative_error: The same of cuBLAS.
        median_seconds: Median of the turns.
        spread: Slowest minus fastest turn, over the median.
        turns: How many.
        launches: Launches that one turn takes the mean of.
        same_bits: Whether the product had the same bits twice.
        clock_mhz: Clock of the multiprocessors while it ran; None where it cannot be read.
        power_watts: Power that the GPU drew; likewise.
        rate_share: Where it was held to some multiprocessors: its rate over their share of the rate
            that all of them reached.
    """

    kernel: str
    tile: str
    dtype: str
    accuracy: str
    m: int
    n: int
    k: int
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
    def shape(self) -> Shape:
        """M, N, K."""
        return self.m, self.n, self.k

    @property
    def entry(self) -> tuple[str, str, str]:
        """What names the kernel: name, tile, element type."""
        return self.kernel, self.tile, self.dtype

    @property
    def is_held(self) -> bool:
        """Whether it belongs to the measurement of SM budgets, not to the suite."""
        return self.rate_share is not None


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


def read_results(file: Path) -> Results:
    """Read one kernels-<gpu>.json.

    Raises:
        ResultsError: It is no JSON, or lacks something.
        OSError: It cannot be read.
    """
    with read_document(file, "make bench-kernels") as document:
        rows = read_rows(Row, document["rows"])
        results = Results(file.stem.removeprefix("kernels-"), document, rows)
        if not (rows and document["compiled"] and results.caption):
            raise ValueError("it has no rows, or no compiler's reports")
    return results


def read_all_results(folder: Path) -> list[Results]:
    """Every kernels-<gpu>.json of a folder, by name.

    Raises:
        ResultsError: There is none, or one of them lacks something.
    """
    files = sorted(folder.glob("kernels-*.json"))
    if not files:
        raise ResultsError(f"{folder}: no kernels-<gpu>.json; `make bench-kernels` writes one")
    return [read_results(file) for file in files]
