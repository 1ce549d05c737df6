"""The rows of benchmarks/results/busy-<host>.json: medians of runs, and what they are held to."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.common.results import read_document, read_rows
from benchmarks.common.shapes import ProductRow, name_shape
from benchmarks.host.baselines.lineup import OURS
from benchmarks.host.busy.conditions import Condition
from benchmarks.host.results import list_versions

ON_CPU: Final = "wavetrim-cpu"
"""wavetrim with F = M."""

NUMPY: Final = "numpy"
PEERS: Final = (NUMPY, "cupy", "torch")
"""wavetrim must not be slower than the fastest of them."""

MOST_RATIO: Final = 1.10
ONE_STEP_RATIO: Final = 1.30
MORE_SECONDS: Final = 0.1e-3
"""wavetrim may take so many times the fastest peer's time, and so much more. The second ratio is
for page-locked products that pass through the GPU in one step, which is taken for those of at most
ONE_STEP_BYTES."""

ONE_STEP_BYTES: Final = 12 * 2**20
MOST_CPU_RATIO: Final = 1.2
"""With F = M it may take so many times NumPy's time."""


@dataclass(frozen=True, slots=True)
class ConditionRow(ProductRow):
    """One baseline at one product in one condition.

    Attributes:
        memory: "pageable" or "pinned".
        condition: What else the machine did.
        baseline: Its name.
        seconds: Median of `runs`.
        runs: Median of each run's turns, in seconds.
        turns: Turns in all runs.
        f: Rows of C that the plan gave to the CPU in the last run; None without a plan.
    """

    memory: str
    condition: Condition
    baseline: str
    seconds: float
    runs: Sequence[float]
    turns: int
    f: int | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """All but the figures."""
        return *self.shape, self.dtype, self.memory, self.condition, self.baseline

    def __str__(self) -> str:
        return f"{name_shape(self.shape)} {self.dtype} {self.memory} {self.condition}"


def merge_runs(rows: Iterable[ConditionRow]) -> list[ConditionRow]:
    """One row of the rows of several runs."""
    found: dict[tuple[object, ...], list[ConditionRow]] = {}
    for row in rows:
        found.setdefault(row.key, []).append(row)
    return [_merge(them) for them in found.values()]


def _merge(rows: Sequence[ConditionRow]) -> ConditionRow:
    last, runs = rows[-1], [seconds for row in rows for seconds in row.runs]
    return ConditionRow(
        *last.shape, last.dtype, last.memory, last.condition, last.baseline,
        seconds=statistics.median(runs), runs=runs, turns=sum(row.turns for row in rows), f=last.f,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Comparison:
    """wavetrim beside what it is held to.

    Attributes:
        ours: Its row.
        other: The fastest peer's, or NumPy's.
        most_seconds: The longest time that is allowed.
    """

    ours: ConditionRow
    other: ConditionRow
    most_seconds: float

    @property
    def ratio(self) -> float:
        """Our time over the other's."""
        return self.ours.seconds / self.other.seconds

    @property
    def excess(self) -> float:
        """Our time over the longest that is allowed."""
        return self.ours.seconds / self.most_seconds

    @property
    def is_lost(self) -> bool:
        """Whether we took longer than is allowed."""
        return self.excess > 1

    def __str__(self) -> str:
        times = " / ".join(f"{row.seconds * 1e3:.3f} ms" for row in (self.ours, self.other))
        by = " (by less than 0.1 ms)" if self.ours.seconds < self.other.seconds + 1e-4 else ""
        return (
            f"{self.ours}: {self.ours.baseline} {times} {self.other.baseline} = {self.ratio:.2f}, "
            f"allowed {self.most_seconds * 1e3:.3f} ms{by}"
        )


def compare_with_peers(rows: Iterable[ConditionRow], *, has_gpu: bool) -> list[Comparison]:
    """Wavetrim beside the fastest peer in the same condition, at each product and memory.

    To NumPy page-locked memory is like any other, so its time counts for both.

    Raises:
        ValueError: A peer is missing.
    """
    needed = PEERS if has_gpu else (NUMPY,)
    by_key = {row.key: row for row in rows}
    found = []
    for ours in by_key.values():
        if ours.baseline != OURS:
            continue
        peers = [by_key.get(_name_peer(ours, name)) for name in needed]
        there = [peer for peer in peers if peer is not None]
        if len(there) < len(needed):
            raise ValueError(f"{ours} is not judged: {', '.join(needed)} are needed beside it")
        fastest = min(there, key=lambda row: row.seconds)
        ratio = ONE_STEP_RATIO if _takes_one_step(ours) else MOST_RATIO
        found.append(Comparison(ours, fastest, ratio * fastest.seconds + MORE_SECONDS))
    return found


def compare_with_numpy(rows: Iterable[ConditionRow]) -> list[Comparison]:
    """Wavetrim with F = M beside NumPy; without a GPU every plan has F = M."""
    by_key = {row.key: row for row in rows}
    found = []
    for numpy in by_key.values():
        if numpy.baseline == NUMPY:
            ours = by_key.get((*numpy.key[:-1], ON_CPU)) or by_key[*numpy.key[:-1], OURS]
            if ours.f == ours.m:
                found.append(Comparison(ours, numpy, MOST_CPU_RATIO * numpy.seconds))
    return found


def _name_peer(ours: ConditionRow, name: str) -> tuple[object, ...]:
    memory = "pageable" if name == NUMPY else ours.memory
    return *ours.shape, ours.dtype, memory, ours.condition, name


def _takes_one_step(row: ConditionRow) -> bool:
    return row.memory == "pinned" and row.size_bytes <= ONE_STEP_BYTES


@dataclass(frozen=True, slots=True)
class BusyResults:
    """A results file.

    Attributes:
        document: The entries above the rows.
        rows: Baselines at products.
    """

    document: Mapping[str, Any]
    rows: tuple[ConditionRow, ...]

    @property
    def has_gpu(self) -> bool:
        """Whether the machine has a GPU."""
        return self.document["hardware"]["gpu"] is not None

    @property
    def caption(self) -> str:
        """What was measured: hardware, versions, commit."""
        hardware, versions = self.document["hardware"], self.document["versions"]
        cores = f"{hardware['cores']} cores of {hardware['cpu']}"
        machine = f"{hardware['gpu']} beside {cores}" if self.has_gpu else f"{cores}, no GPU"
        return f"{machine}; {list_versions(versions)}; commit {self.document['commit']}"


def read_busy_file(file: Path) -> BusyResults:
    """Read one busy-<host>.json.

    Raises:
        ResultsError: It is no JSON, or lacks something.
        OSError: It cannot be read.
    """
    with read_document(file, "make bench-host CONDITION=all") as document:
        rows = read_rows(ConditionRow, document.pop("rows"))
        results = BusyResults(document, rows)
        if not (rows and results.caption):
            raise ValueError("it has no rows")
        return results
