"""The rows of benchmarks/results/host-<gpu>.json: turns of baselines, and sweeps of F."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.common.environment import name_gpu
from benchmarks.common.results import read_document, read_rows
from benchmarks.common.shapes import ProductRow, Shape
from benchmarks.host.baselines.lineup import OTHERS, OURS
from benchmarks.host.suite import Group
from wavetrim.scheduler.problem import Memory

SLOWER_SHARE: Final = 0.03
SLOWER_SECONDS: Final = 0.05e-3
"""A product counts as slower beyond the fastest other's time, plus this share and these seconds."""

MEMORY_NAMES: Final[Mapping[Memory, str]] = {"pageable": "pageable", "pinned": "page-locked"}


@dataclass(frozen=True, slots=True)
class HostRow(ProductRow):
    """One baseline at one product.

    Attributes:
        memory: "pageable" or "pinned".
        baseline: Its name.
        seconds: Median of the turns' last calls, from host memory back into host memory.
        limit_seconds: The least time of the GPU alone, by the rates of the same run; None if it was
            not measured.
        f: Rows of C that the plan gave to the CPU; None without a plan.
        f_actual: Rows of C that the CPU computed.
        spread: Slowest minus fastest turn, over the median.
        turns: Number of turns.
        settings: Settings of the baseline, or of its plan.
        group: Why the product is measured.
        first_seconds: Median of the turns' first calls, which come after another baseline's work;
            equal to `seconds` if turns have one call, None in files written before 2026-12.
    """

    memory: str
    baseline: str
    seconds: float
    limit_seconds: float | None
    f: int | None
    f_actual: int | None
    spread: float
    turns: int
    settings: dict[str, Any] | None = None
    group: Group = "suite"
    first_seconds: float | None = None

    @property
    def limit_share(self) -> float | None:
        """The limit over the time taken: 1 at the limit of the GPU alone."""
        return None if self.limit_seconds is None else self.limit_seconds / self.seconds

    @property
    def predicted_seconds(self) -> float | None:
        """The plan's prediction; None without a plan."""
        return (self.settings or {}).get("predicted_seconds")


@dataclass(frozen=True, slots=True)
class Contest:
    """The rows of all baselines at one product, by baseline."""

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
    def excess(self) -> float:
        """Our time over the longest that does not count as slower."""
        return self.ours.seconds / _allow(self.fastest.seconds)

    @property
    def first_excess(self) -> float | None:
        """The same for the first calls of turns; None if these were not measured."""
        firsts = [row.first_seconds for name, row in self.rows.items() if name in OTHERS]
        measured = [seconds for seconds in firsts if seconds is not None]
        ours_seconds = self.ours.first_seconds
        return None if ours_seconds is None else ours_seconds / _allow(min(measured))

    def find_ratio(self, name: str) -> float | None:
        """Our time over a baseline's; None if that was not measured."""
        return self.ours.seconds / self.rows[name].seconds if name in self.rows else None


def _allow(seconds: float) -> float:
    """The longest time that does not count as slower than another's."""
    return seconds * (1 + SLOWER_SHARE) + SLOWER_SECONDS


def group_rows(rows: Iterable[HostRow]) -> list[dict[str, HostRow]]:
    """The rows of each product that has ours, by baseline.

    For the CPU page-locked memory is like any other, so NumPy's time counts for both kinds.
    """
    found: dict[tuple[Shape, str, str], dict[str, HostRow]] = {}
    for row in rows:
        found.setdefault((row.shape, row.dtype, row.memory), {})[row.baseline] = row
    for (shape, dtype, memory), by_name in found.items():
        pageable = found.get((shape, dtype, "pageable"), {})
        if memory == "pinned" and "numpy" in pageable:
            by_name["numpy"] = pageable["numpy"]
    return [by_name for by_name in found.values() if OURS in by_name]


def list_contests(rows: Iterable[HostRow]) -> list[Contest]:
    """Contests of ours and at least one other."""
    return [
        Contest(by_name) for by_name in group_rows(rows) if any(name in by_name for name in OTHERS)
    ]


@dataclass(frozen=True, slots=True)
class SweepRow(ProductRow):
    """The model's F against the best one that was found.

    Attributes:
        memory: "pageable" or "pinned".
        sms: Multiprocessors that the GPU was held to, or all that it has.
        f: The model's F.
        best_f: The fastest F of the sweep.
        regret: Time at `f` over time at `best_f`.
        predicted_seconds: "gpu", "cpu" and "total" at `f`, by the model.
        measured_seconds: The same as measured, medians.
        kernel: Name and tile of the GPU's kernel.
        gpu_alone_seconds: Time at F = 0.
        cpu_alone_seconds: Time at F = M; None if the model predicts far too long a time.
        turns: Turns of the final measurements.
        curve: (F, seconds, predicted seconds), one turn each.
    """

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
    turns: int
    curve: Sequence[Sequence[float]] = field(default_factory=tuple)

    @property
    def is_split(self) -> bool:
        """Whether both devices compute rows."""
        return 0 < self.f < self.m

    @property
    def over_better_alone(self) -> float:
        """Time at the model's F over that of the better device alone."""
        alone = [x for x in (self.gpu_alone_seconds, self.cpu_alone_seconds) if x is not None]
        return self.measured_seconds["total"] / min(alone)


@dataclass(frozen=True, slots=True)
class HostResults:
    """A results file: one run's contests, or its sweeps of F.

    Attributes:
        document: The entries above the rows.
        rows: Baselines at products.
        regret: Sweeps of F.
    """

    document: Mapping[str, Any]
    rows: tuple[HostRow, ...] = ()
    regret: tuple[SweepRow, ...] = ()

    @property
    def gpu(self) -> str:
        """A short name of the GPU: "h200"."""
        return name_gpu(self.document["hardware"]["gpu"])

    @property
    def is_several(self) -> bool:
        """Whether it was on several GPUs, with other baselines than on one."""
        return int(self.document.get("gpus", 1)) > 1

    @property
    def caption(self) -> str:
        """What was measured: hardware, versions, commit."""
        hardware, shown = self.document["hardware"], list_versions(self.document["versions"])
        return (
            f"{hardware['gpu']}, driver {hardware['driver']}, beside {hardware['cores']} cores of "
            f"{hardware['cpu']}; {shown}; commit {self.document['commit']}"
        )


def list_versions(versions: Mapping[str, str]) -> str:
    """The versions of the libraries that take part: "NumPy 2.4.0"."""
    names = {"CuPy": "cupy-cuda13x", "PyTorch": "torch", "NumPy": "numpy"}
    return ", ".join(f"{name} {versions[x]}" for name, x in names.items() if x in versions)


def read_host_file(file: Path) -> HostResults:
    """Read one host-<gpu>.json.

    Files written before 2026-12 may hold contests with the GPU held to some multiprocessors, and
    times with an F that moved while products ran: these are ignored.

    Raises:
        ResultsError: It is no JSON, or lacks something.
        OSError: It cannot be read.
    """
    with read_document(file, "make bench-host") as document:
        rows, regret = document.pop("rows"), document.pop("regret")
        whole = {document["hardware"].get("sm_count"), None}
        rows = [row for row in rows if row.get("sms") in whole]
        results = HostResults(document, read_rows(HostRow, rows), read_rows(SweepRow, regret))
        if not ((rows or regret) and results.caption):
            raise ValueError("it has no rows")
    return results


def read_host_results(folder: Path) -> list[HostResults]:
    """All results of machines with a GPU."""
    found = map(read_host_file, sorted(folder.glob("host-*.json")))
    return [results for results in found if results.document["hardware"]["gpu"]]
