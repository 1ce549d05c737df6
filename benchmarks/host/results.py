"""The rows of benchmarks/results/busy-*.json and host-*.json: contests, and sweeps of F.

A contest is written into busy-<host>.json, sweeps into host-<gpu>-sweeps.json. Older contests, at
one product after the other on a quiet machine, are in host-<gpu>.json.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from benchmarks.common.results import Results, read_document, read_rows
from benchmarks.common.shapes import Product
from benchmarks.host.baselines import OTHERS, OURS
from benchmarks.host.conditions import Condition
from wavetrim.scheduler.problem import Memory

MEMORY_NAMES: Final[Mapping[Memory, str]] = {"pageable": "pageable", "pinned": "page-locked"}


@dataclass(frozen=True, slots=True)
class HostRow(Product):
    """One baseline at one product in one condition.

    Attributes:
        memory: "pageable" or "pinned".
        baseline: Its name.
        seconds: Median of `runs`, from host memory back into host memory.
        turns: Turns in all runs.
        condition: What else the machine did.
        runs: Median of each run's turns, in seconds; empty in files of one run.
        f: Rows of C that the plan gave to the CPU in the last run; None without a plan.
        limit_seconds: The least time of the GPUs alone, by the rates of the same run; None if it
            was not measured.
    """

    memory: Memory
    baseline: str
    seconds: float
    turns: int
    condition: Condition = "quiet"
    runs: Sequence[float] = ()
    f: int | None = None
    limit_seconds: float | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """All but the figures."""
        return *self.shape, self.dtype, self.memory, self.condition, self.baseline

    @property
    def limit_share(self) -> float | None:
        """The limit over the time taken: 1 at the limit of the GPUs alone."""
        return None if self.limit_seconds is None else self.limit_seconds / self.seconds

    def __str__(self) -> str:
        return f"{self.name} {self.memory} {self.condition}"


def merge_runs(rows: Iterable[HostRow]) -> list[HostRow]:
    """One row of the rows of several runs."""
    found: dict[tuple[object, ...], list[HostRow]] = {}
    for row in rows:
        found.setdefault(row.key, []).append(row)
    return [_merge(them) for them in found.values()]


def _merge(rows: Sequence[HostRow]) -> HostRow:
    runs = [seconds for row in rows for seconds in row.runs]
    return replace(
        rows[-1],
        seconds=statistics.median(runs),
        runs=runs,
        turns=sum(row.turns for row in rows),
        limit_seconds=next((row.limit_seconds for row in rows if row.limit_seconds), None),
    )


@dataclass(frozen=True, slots=True)
class Contest:
    """The rows of ours and of others at one product, by baseline."""

    rows: Mapping[str, HostRow]

    @property
    def ours(self) -> HostRow:
        """Wavetrim's row."""
        return self.rows[OURS]

    @property
    def fastest(self) -> HostRow:
        """The fastest of the others."""
        others = [self.rows[name] for name in OTHERS if name in self.rows]
        return min(others, key=lambda row: row.seconds)

    @property
    def ratio(self) -> float:
        """Our time over the fastest other's."""
        return self.ours.seconds / self.fastest.seconds


def list_contests(rows: Iterable[HostRow]) -> list[Contest]:
    """The contests of ours and at least one other.

    Page-locked memory makes no difference to the CPU, so NumPy's time counts for both kinds.
    """
    found: dict[tuple[object, ...], dict[str, HostRow]] = {}
    for row in rows:
        found.setdefault(row.key[:-1], {})[row.baseline] = row
    for (*product, _, condition), by_name in found.items():
        pageable = found.get((*product, "pageable", condition), {})
        if "numpy" in pageable:
            by_name["numpy"] = pageable["numpy"]
    return [
        Contest(by_name)
        for by_name in found.values()
        if OURS in by_name and not by_name.keys().isdisjoint(OTHERS)
    ]


@dataclass(frozen=True, slots=True)
class SweepRow(Product):
    """The model's F against the best one that was found.

    Attributes:
        memory: "pageable" or "pinned".
        sms: Multiprocessors that the GPU was limited to, or all that it has.
        f: The model's F.
        best_f: The fastest F of the sweep.
        regret: Time at `f` over time at `best_f`.
        predicted_seconds: "gpu", "cpu" and "total" at `f`, by the model.
        measured_seconds: The same as measured, medians.
        kernel: Name and tile of the GPU's kernel.
        gpu_alone_seconds: Time at F = 0.
        turns: Turns of the final measurements.
        curve: (F, seconds, predicted seconds), one turn each.
        condition: What else the machine did.
    """

    memory: Memory
    sms: int
    f: int
    best_f: int
    regret: float
    predicted_seconds: Mapping[str, float]
    measured_seconds: Mapping[str, float]
    kernel: str
    gpu_alone_seconds: float
    turns: int
    curve: Sequence[Sequence[float]] = field(default_factory=tuple)
    condition: Condition = "quiet"

    @property
    def is_split(self) -> bool:
        """Whether both devices compute rows."""
        return 0 < self.f < self.m


@dataclass(frozen=True, slots=True)
class HostResults(Results[HostRow]):
    """A results file: one run's contests, or its sweeps of F.

    Attributes:
        regret: Sweeps of F.
    """

    regret: tuple[SweepRow, ...] = ()

    @property
    def caption(self) -> str:
        """What was measured: hardware, versions, commit."""
        hardware, shown = self.document["hardware"], list_versions(self.document["versions"])
        cores = f"{hardware['cores']} cores of {hardware['cpu']}"
        gpu = f"{hardware['gpu']}, driver {hardware['driver']}, beside " if self.gpu else ""
        return f"{gpu}{cores}; {shown}; commit {self.document['commit']}"


def list_versions(versions: Mapping[str, str]) -> str:
    """The versions of the compared libraries: "NumPy 2.4.0"."""
    names = {"CuPy": "cupy-cuda13x", "PyTorch": "torch", "NumPy": "numpy"}
    return ", ".join(f"{name} {versions[x]}" for name, x in names.items() if x in versions)


def read_host_file(file: Path) -> HostResults:
    """Read one results file."""
    with read_document(file, "make bench-host") as document:
        rows, regret = document.pop("rows"), document.pop("regret", ())
        return HostResults(document, read_rows(HostRow, rows), read_rows(SweepRow, regret))


def read_host_results(folder: Path) -> list[HostResults]:
    """The results of machines that were calibrated: their documents have a profile."""
    return [read_host_file(file) for file in sorted(folder.glob("host-*.json"))]


def read_contests(folder: Path) -> list[HostResults]:
    """All results with contests, the oldest first."""
    busy = [read_host_file(file) for file in sorted(folder.glob("busy-*.json"))]
    found = [one for one in (*read_host_results(folder), *busy) if one.rows]
    return sorted(found, key=lambda one: str(one.document["measured_at"]))
