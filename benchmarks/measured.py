"""The rows of benchmarks/results/kernels-<gpu>.json, written and read."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final, Self

Shape = tuple[int, int, int]
"""M, N, K."""


_OPTIONAL: Final = frozenset({"launches", "same_bits", "clock_mhz", "power_watts", "rate_share"})


_AGAIN: Final = "`make bench-kernels` on such a GPU writes it anew"


class ResultsError(Exception):
    """A results file does not have what is read from it; the message names file and lack."""


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

    @classmethod
    def read(cls, figures: dict[str, Any]) -> Self:
        """A row of the file; what newer files have besides is None in older ones.

        Raises:
            KeyError: It lacks what every file has.
        """
        names = [field.name for field in fields(cls)]
        known: dict[str, Any] = {
            name: figures.get(name) if name in _OPTIONAL else figures[name] for name in names
        }
        return cls(**known)


def format_document(document: dict[str, Any], rows: Sequence[Row]) -> str:
    """A results file: each row in a line of its own, figures with six digits.

    Args:
        document: What stands above the rows.
        rows: The rows.
    """
    head = json.dumps(document, indent=1).removesuffix("\n}")
    lines = ",\n  ".join(json.dumps(_round_figures(row)) for row in rows)
    return f'{head},\n "rows": [\n  {lines}\n ]\n}}\n'


def _round_figures(row: Row) -> dict[str, Any]:
    return {
        name: float(f"{value:.6g}") if isinstance(value, float) else value
        for name, value in asdict(row).items()
    }


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
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        rows = tuple(_read_row(place, row) for place, row in enumerate(document["rows"], 1))
        results = Results(file.stem.removeprefix("kernels-"), document, rows)
        complete = bool(rows and document["compiled"] and results.caption)
    except (KeyError, TypeError, ValueError) as error:
        what = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        raise ResultsError(f"{file.name}: {what}; {_AGAIN}") from error
    if not complete:
        raise ResultsError(f"{file.name}: it has no rows, or no compiler's reports; {_AGAIN}")
    return results


def _read_row(place: int, figures: dict[str, Any]) -> Row:
    try:
        return Row.read(figures)
    except KeyError as error:
        raise ValueError(f"row {place} lacks {error}") from error


def read_all_results(folder: Path) -> list[Results]:
    """Every kernels-<gpu>.json of a folder, by name.

    Raises:
        ResultsError: There is none, or one of them lacks something.
    """
    files = sorted(folder.glob("kernels-*.json"))
    if not files:
        raise ResultsError(f"{folder}: no kernels-<gpu>.json; `make bench-kernels` writes one")
    return [read_results(file) for file in files]
