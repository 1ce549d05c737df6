"""The rows of benchmarks/results/host-<gpu>.json, written and read."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from benchmarks.measured import ResultsError, Shape

_AGAIN: Final = "`make bench-host` on such a GPU writes it anew"


@dataclass(frozen=True, slots=True)
class HostRow:
    """One contender at one product.

    Attributes:
        m: Rows of C.
        n: Columns of C.
        k: Columns of A.
        dtype: Element type.
        memory: "pageable" or "pinned".
        sms: Multiprocessors that the GPU was held to, or all that it has; None without a GPU.
        contender: Who.
        seconds: Median of the turns, from host memory back into host memory.
        limit_seconds: The least time of the GPU alone, by the rates of the same run.
        f: Rows of C that the plan left to the CPU; None where there is no plan.
        f_actual: Rows of C that the CPU computed.
        spread: Slowest minus fastest turn, over the median.
        turns: How many.
        settings: What the contender was tuned to.
        commit: What was measured; None before a record has the row.
    """

    m: int
    n: int
    k: int
    dtype: str
    memory: str
    sms: int | None
    contender: str
    seconds: float
    limit_seconds: float | None
    f: int | None
    f_actual: int | None
    spread: float
    turns: int
    settings: dict[str, Any] | None = None
    commit: str | None = None

    @property
    def shape(self) -> Shape:
        """M, N, K."""
        return self.m, self.n, self.k

    @property
    def place(self) -> tuple[Any, ...]:
        """What is the same in all rows of a contest."""
        return *self.shape, self.dtype, self.memory, self.sms

    @property
    def limit_share(self) -> float | None:
        """The limit over the time taken: 1 at the limit of the GPU alone."""
        return None if self.limit_seconds is None else self.limit_seconds / self.seconds


@dataclass(frozen=True, slots=True)
class RegretRow:
    """The model's F beside the best one that was found.

    Attributes:
        m: Rows of C.
        n: Columns of C.
        k: Columns of A.
        dtype: Element type.
        memory: "pageable" or "pinned".
        sms: Multiprocessors that the GPU was held to, or all that it has.
        f: The model's F.
        best_f: The fastest F of the sweep.
        regret: Time at `f` over time at `best_f`.
        predicted_seconds: "gpu", "cpu" and "total", as the model has them at `f`.
        measured_seconds: The same as measured, medians.
        kernel: Name and tile of the GPU's kernel.
        gpu_alone_seconds: Time at F = 0.
        cpu_alone_seconds: Time at F = M; None where the model finds that hopeless.
        moving_seconds: Time with the plan as it is, whose boundary may move from `f`.
        turns: Times that the best ones were measured.
        curve: (F, seconds, predicted seconds), one turn each.
        commit: What was measured; None before a record has the row.
    """

    m: int
    n: int
    k: int
    dtype: str
    memory: str
    sms: int
    f: int
    best_f: int
    regret: float
    predicted_seconds: Mapping[str, float]
    measured_seconds: Mapping[str, float]
    kernel: str
    gpu_alone_seconds: float
    cpu_alone_seconds: float | None
    moving_seconds: float
    turns: int
    curve: Sequence[Sequence[float]] = field(default_factory=tuple)
    commit: str | None = None

    @property
    def shape(self) -> Shape:
        """M, N, K."""
        return self.m, self.n, self.k

    @property
    def place(self) -> tuple[Any, ...]:
        """What names the sweep."""
        return *self.shape, self.dtype, self.memory, self.sms

    @property
    def over_better_alone(self) -> float:
        """Time with the plan, its boundary moving, over that of the better device alone."""
        alone = [x for x in (self.gpu_alone_seconds, self.cpu_alone_seconds) if x is not None]
        return self.moving_seconds / min(alone)


AnyRow = TypeVar("AnyRow", HostRow, RegretRow)


@dataclass(frozen=True, slots=True)
class HostResults:
    """A results file.

    Attributes:
        name: "h200" of host-h200.json.
        document: All of it; its commit, profile and link are those of the latest run.
        rows: Contenders, each with its commit.
        regret: Sweeps of F, likewise.
    """

    name: str
    document: Mapping[str, Any]
    rows: tuple[HostRow, ...]
    regret: tuple[RegretRow, ...]

    @property
    def caption(self) -> str:
        """What was measured: hardware, versions, latest commit."""
        hardware, versions = self.document["hardware"], self.document["versions"]
        names = {"CuPy": "cupy-cuda13x", "PyTorch": "torch", "NumPy": "numpy"}
        shown = [f"{name} {versions[x]}" for name, x in names.items() if x in versions]
        return (
            f"{hardware['gpu']}, driver {hardware['driver']}, beside {hardware['cores']} cores of "
            f"{hardware['cpu']}; {', '.join(shown)}; commit {self.document['commit']}"
        )

    @classmethod
    def read(cls, file: Path) -> Self:
        """Read one host-<gpu>.json; rows that do not tell their commit are of the file's.

        Raises:
            ResultsError: It is no JSON, or lacks something.
            OSError: It cannot be read.
        """
        try:
            document = json.loads(file.read_text(encoding="utf-8"))
            commit = document["commit"]
            rows = _read_rows(HostRow, document["rows"], commit)
            regret = _read_rows(RegretRow, document["regret"], commit)
            results = cls(file.stem.removeprefix("host-"), document, rows, regret)
            complete = bool((rows or regret) and results.caption)
        except (KeyError, TypeError, ValueError) as error:
            what = f"lacks {error}" if isinstance(error, KeyError) else str(error)
            raise ResultsError(f"{file.name}: {what}; {_AGAIN}") from error
        if not complete:
            raise ResultsError(f"{file.name}: it has no rows; {_AGAIN}")
        return results

    def write(self, file: Path) -> None:
        """Write it, all at once: a run that is cut short leaves the file before."""
        unfinished = file.with_suffix(".unfinished")
        text = format_host_document(self.document, self.rows, self.regret)
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(file)


def read_host_results(folder: Path) -> list[HostResults]:
    """All results of machines with a GPU; none where nothing was measured yet.

    Raises:
        ResultsError: One of them lacks something.
    """
    found = (HostResults.read(file) for file in sorted(folder.glob("host-*.json")))
    return [results for results in found if results.document["hardware"]["gpu"]]


def replace_rows(older: Iterable[AnyRow], newer: Sequence[AnyRow]) -> tuple[AnyRow, ...]:
    """All rows, but the older ones of no contest, and no sweep, that has newer ones."""
    places = {row.place for row in newer}
    return tuple([row for row in older if row.place not in places] + list(newer))


def format_host_document(
    document: Mapping[str, Any], rows: Iterable[HostRow], regret: Iterable[RegretRow]
) -> str:
    """A results file: each row in a line of its own, figures with six digits.

    Args:
        document: What stands above the rows; its own rows are passed over.
        rows: Contenders.
        regret: Sweeps of F.
    """
    above = {name: of for name, of in document.items() if name not in ("rows", "regret")}
    head = json.dumps(above, indent=1).removesuffix("\n}")
    lists = f' "rows": [{_format_rows(rows)}],\n "regret": [{_format_rows(regret)}]'
    return f"{head},\n{lists}\n}}\n"


def _format_rows(rows: Iterable[HostRow | RegretRow]) -> str:
    lines = ",\n  ".join(json.dumps(_round_figures(asdict(row))) for row in rows)
    return f"\n  {lines}\n " if lines else ""


def _round_figures(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {name: _round_figures(of) for name, of in value.items()}
    return [_round_figures(of) for of in value] if isinstance(value, list | tuple) else value


def _read_rows(
    kind: type[AnyRow], rows: Sequence[Mapping[str, Any]], commit: str
) -> tuple[AnyRow, ...]:
    names = [x.name for x in fields(kind)]
    read = []
    for place, row in enumerate(({"commit": commit} | dict(row) for row in rows), 1):
        missing = [name for name in names if name not in row]
        if missing:
            raise ValueError(f"{kind.__name__} {place} lacks {missing[0]!r}")
        read.append(kind(**{name: row[name] for name in names}))
    return tuple(read)
