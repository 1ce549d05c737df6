"""What is asked of the service over HTTP, and whether a results file shows it.

Each bound holds at several cases; its judgement names the one that is nearest to it or furthest
beyond.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from benchmarks.http.baselines.baseline import CUPY, EXECUTOR, NUMPY, OURS, OURS_LEASE
from benchmarks.http.jobs import WITHOUT_SPLIT
from benchmarks.http.rows import Case, HttpResults, Row
from benchmarks.http.transfers import SINK

MS: Final = 1e-3
SHARE_OF_FLOOR: Final = 1.2
FROM_SIZE: Final = 256
"""From so many rows on the service is never slower than NumPy behind FastAPI."""

OWN_BYTES: Final = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Figure:
    """One case of a bound.

    Attributes:
        where: The case.
        found: What was measured.
        asked: What it may be at most, or must be at least.
    """

    where: str
    found: float
    asked: float


@dataclass(frozen=True, slots=True)
class Judgement:
    """A bound, and what was found.

    Attributes:
        what: The bound in words, with its unit.
        at_least: Whether more is better.
        figures: Each case; none where nothing of it was measured.
    """

    what: str
    at_least: bool
    figures: tuple[Figure, ...]

    @property
    def worst(self) -> Figure | None:
        """The case with the least room, or furthest beyond; None where nothing was measured."""
        return max(self.figures, key=self._use, default=None)

    @property
    def met(self) -> int:
        """At how many cases it holds."""
        return sum(self._use(figure) <= 1 for figure in self.figures)

    @property
    def holds(self) -> bool | None:
        """Whether it holds everywhere; None where nothing was measured."""
        return self.met == len(self.figures) if self.figures else None

    def _use(self, figure: Figure) -> float:
        """How much of what is allowed is used: over 1 is beyond."""
        above, below = figure.found, figure.asked
        if self.at_least:
            above, below = below, above
        return above / below if below else (0.0 if above <= 0 else float("inf"))


def judge(results: HttpResults) -> list[Judgement]:
    """Every bound that this machine can be held to."""
    with_gpu = results.document["hardware"]["gpu"] is not None
    found = [
        Judgement(f"one client: at most {SHARE_OF_FLOOR} times the floor + 0.3 ms, in ms", False,
                  tuple(compare_floor(results))),
        Judgement(f"never slower than {NUMPY} from {FROM_SIZE}² on, time over time", False,
                  tuple(compare_numpy(results))),
        Judgement("512 clients at 64²: 99th percentile over median", False,
                  tuple(compare_crowd(results, lambda x: x.p99_seconds / x.p50_seconds, 2.0))),
        Judgement("512 clients: requests refused", False,
                  tuple(compare_crowd(results, lambda x: x.refused, 0.0))),
        Judgement("through a lease: the executor + 0.5 ms, in ms", False,
                  tuple(compare_lease(results))),
        Judgement("upload of a kept matrix, rate over a bare sink's", True,
                  tuple(compare_transfer(results, "upload", 0.8))),
        Judgement("download, rate over a bare sendall's", True,
                  tuple(compare_transfer(results, "download", 0.9))),
        Judgement("own memory's growth in both, MiB", False, tuple(compare_memory(results))),
        Judgement("job: longer of product and disk + 10 ms, in ms", False,
                  tuple(compare_jobs(results, "job", 10 * MS))),
        Judgement("job with its result in memory: product + 3 ms, in ms", False,
                  tuple(compare_jobs(results, "job-memory", 3 * MS))),
    ]  # fmt: skip
    return [*found, *(judge_gpu(results) if with_gpu else judge_cores(results))]


def judge_cores(results: HttpResults) -> list[Judgement]:
    """What is asked at 64² of two cores without a GPU."""
    one = results.find(OURS, Case("product", 64, "float32", 1))
    many = results.find(OURS, Case("product", 64, "float32", 16))

    def take(row: Row | None, found: Callable[[Row], float], asked: float) -> tuple[Figure, ...]:
        return () if row is None else (Figure(str(row.case), found(row), asked),)

    return [
        Judgement("64² on 2 cores: median, in ms", False,
                  take(one, lambda row: row.p50_seconds / MS, 0.6)),
        Judgement("64² on 2 cores: requests a second, one client", True,
                  take(one, lambda row: row.rate, 1500.0)),
        Judgement("64² on 2 cores: requests a second, 16 clients", True,
                  take(many, lambda row: row.rate, 3000.0)),
    ]  # fmt: skip


def judge_gpu(results: HttpResults) -> list[Judgement]:
    """What is asked beside a GPU."""
    large = Case("product", 4096, "float32", 1)
    lease = results.find(OURS_LEASE, large)
    peer, ours = results.find(CUPY, large), results.find(OURS, large)
    times = [
        Figure(f"{large}", peer.p50_seconds / ours.p50_seconds, 4.0)
        for peer, ours in [(peer, ours)]
        if peer is not None and ours is not None
    ]
    leased = () if lease is None else (Figure(str(large), lease.p50_seconds / MS, 6.0),)
    return [
        Judgement(f"never slower than {CUPY} but for 0.2 ms, in ms", False,
                  tuple(compare_cupy(results))),
        Judgement(f"4096²: times as fast as {CUPY}", True, tuple(times)),
        Judgement("4096² float32 through a lease, in ms", False, leased),
        Judgement("link-bound jobs with F > 0: rows that the CPU computed", True,
                  tuple(count_split_rows(results))),
        Judgement("link-bound jobs: speed over the same with F = 0", True,
                  tuple(compare_splits(results))),
    ]  # fmt: skip


def list_ours(results: HttpResults, baseline: str = OURS) -> Iterator[tuple[Row, dict[str, Row]]]:
    """Our rows of products, each with all rows of its case."""
    for case in results.list_cases("product"):
        rows = results.find_case(case)
        if baseline in rows:
            yield rows[baseline], rows


def compare_floor(results: HttpResults) -> Iterator[Figure]:
    """One client's requests against their floor."""
    for row, _ in list_ours(results):
        if row.clients == 1 and row.floor_seconds is not None:
            asked = SHARE_OF_FLOOR * row.floor_seconds + 0.3 * MS
            yield Figure(str(row.case), row.p50_seconds / MS, asked / MS)


def compare_numpy(results: HttpResults) -> Iterator[Figure]:
    """Requests against the eight lines'."""
    for row, rows in list_ours(results):
        if NUMPY in rows and isinstance(row.size, int) and row.size >= FROM_SIZE:
            yield Figure(str(row.case), row.p50_seconds / rows[NUMPY].p50_seconds, 1.0)


def compare_cupy(results: HttpResults) -> Iterator[Figure]:
    """Requests against the twenty lines'."""
    for row, rows in list_ours(results):
        if CUPY in rows:
            asked = rows[CUPY].p50_seconds + 0.2 * MS
            yield Figure(str(row.case), row.p50_seconds / MS, asked / MS)


def compare_crowd(
    results: HttpResults, found: Callable[[Row], float], asked: float
) -> Iterator[Figure]:
    """What 512 clients see at 64²."""
    for row, _ in list_ours(results):
        if row.clients == 512 and row.size == 64:
            yield Figure(str(row.case), found(row), asked)


def compare_lease(results: HttpResults) -> Iterator[Figure]:
    """Products in a lease against the executor."""
    for row, rows in list_ours(results, OURS_LEASE):
        if EXECUTOR in rows:
            asked = rows[EXECUTOR].p50_seconds + 0.5 * MS
            yield Figure(str(row.case), row.p50_seconds / MS, asked / MS)


def compare_transfer(results: HttpResults, what: str, asked: float) -> Iterator[Figure]:
    """Our rate over the bare server's."""
    for case in results.list_cases(what):
        rows = results.find_case(case)
        if {OURS, SINK} <= set(rows):
            yield Figure(str(case), rows[SINK].p50_seconds / rows[OURS].p50_seconds, asked)


def compare_memory(results: HttpResults) -> Iterator[Figure]:
    """What the service grew while matrices came and went."""
    for row in results.rows:
        if row.own_bytes is not None and row.baseline == OURS:
            yield Figure(str(row.case), row.own_bytes / 2**20, OWN_BYTES / 2**20)


def compare_jobs(results: HttpResults, what: str, allowed: float) -> Iterator[Figure]:
    """Jobs against what they cannot do without."""
    for case in results.list_cases(what):
        row = results.find(OURS, case)
        if row is not None and row.floor_seconds is not None:
            yield Figure(str(case), row.p50_seconds / MS, (row.floor_seconds + allowed) / MS)


def count_split_rows(results: HttpResults) -> Iterator[Figure]:
    """What `timings` say of jobs that the model splits."""
    for case in results.list_cases("split"):
        row = results.find(OURS, case)
        if row is not None and row.f:
            yield Figure(str(case), row.f_actual or 0, 1.0)


def compare_splits(results: HttpResults) -> Iterator[Figure]:
    """Jobs that the model splits against the same without the CPU.

    Where the model sees no gain in a split, none is judged.
    """
    for case in results.list_cases("split"):
        rows = results.find_case(case)
        if {OURS, WITHOUT_SPLIT} <= set(rows) and rows[OURS].f:
            seconds = [_server_seconds(rows[name]) for name in (WITHOUT_SPLIT, OURS)]
            yield Figure(str(case), seconds[0] / seconds[1], 1.05)


def _server_seconds(row: Row) -> float:
    return row.p50_seconds if row.server_seconds is None else row.server_seconds
