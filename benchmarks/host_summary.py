"""What the host benchmark's rows say about the promises that are made."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.host_rows import HostResults, HostRow, RegretRow
from benchmarks.host_suite import ALL_SHAPES, DTYPES, name_shape
from benchmarks.measured import Shape

OURS: Final = "wavetrim"
ALONE: Final = ("wavetrim-gpu", "wavetrim-cpu")
PEERS: Final = ("cupy", "cupy-streams", "torch", "cublasxt", "numpy")

NEAR_LIMIT: Final[tuple[Shape, ...]] = (
    (8192, 8192, 8192),
    (16384, 16384, 16384),
    (16384, 16384, 256),
    (8192, 1024, 8192),
)
NEARLY_LIMIT: Final[tuple[Shape, ...]] = ((4096, 4096, 4096), (256, 8192, 8192))
BEYOND_LIMIT: Final[tuple[Shape, ...]] = ((16384, 16384, 256),)
JUST_BEYOND: Final[tuple[Shape, ...]] = ((65536, 256, 256),)
FEW_SMS: Final = 4
FEW_SHAPES: Final[tuple[Shape, ...]] = ((4096, 4096, 4096), (8192, 8192, 8192))
REGRET_BUDGETS: Final = (32, 8)
"""Besides all multiprocessors."""

Times = Mapping[Shape, float]


@dataclass(frozen=True, slots=True)
class Promise:
    """Something that is asked of the figures.

    Attributes:
        what: The figure.
        dtype: Element type.
        asked: What it should be at least, or at most.
        found: What it is; None where it was not measured completely.
        at_least: Whether more is better.
        commits: Of the contests and sweeps that it was found from.
    """

    what: str
    dtype: str
    asked: float
    found: float | None
    at_least: bool = True
    commits: frozenset[str | None] = frozenset()

    @property
    def kept(self) -> bool | None:
        """Whether it is kept; None where that was not measured."""
        if self.found is None:
            return None
        return self.found >= self.asked if self.at_least else self.found <= self.asked


def list_promises(results: HostResults) -> list[Promise]:
    """All that is asked, with what was found."""
    promises = []
    for dtype in DTYPES:
        promises += _list_limit_promises(results.rows, dtype)
        promises += _list_peer_promises(results.rows, dtype)
        promises += _list_regret_promises(results.regret, dtype)
    shares = [find_hybrid_gain(results.rows, x, "float64", FEW_SMS) for x in FEW_SHAPES]
    what = f"{FEW_SMS} multiprocessors: speed over the better device alone, {_name(FEW_SHAPES)}"
    commits = find_commits(results.rows, FEW_SHAPES, "float64", "pageable", FEW_SMS)
    promises.append(Promise(what, "float64", 1.5, _find_least(shares), commits=commits))
    return promises


def pick_times(
    rows: Iterable[HostRow], contender: str, dtype: str, memory: str, sms: int | None = None
) -> dict[Shape, float]:
    """Seconds of a contender by product.

    Args:
        rows: All rows.
        contender: Who.
        dtype: Element type.
        memory: Kind of host memory.
        sms: Multiprocessors that the GPU was held to; None for all.
    """
    chosen = list(rows)
    whole = find_whole(chosen)
    return {
        row.shape: row.seconds
        for row in chosen
        if (row.contender, row.dtype, row.memory) == (contender, dtype, memory)
        and row.sms == (sms or whole)
    }


def find_commits(
    rows: Iterable[HostRow],
    shapes: Sequence[Shape],
    dtype: str,
    memory: str,
    sms: int | None = None,
) -> frozenset[str | None]:
    """Commits of the contests at some products; arguments are those of `pick_times`."""
    chosen = list(rows)
    whole = find_whole(chosen)
    return frozenset(
        row.commit
        for row in chosen
        if row.shape in shapes and (row.dtype, row.memory, row.sms) == (dtype, memory, sms or whole)
    )


def find_whole(rows: Iterable[HostRow] | Iterable[RegretRow]) -> int | None:
    """Multiprocessors of the GPU: the most of any row; None without one."""
    return max((row.sms for row in rows if row.sms is not None), default=None)


def find_limit_shares(rows: Iterable[HostRow], dtype: str, memory: str) -> dict[Shape, float]:
    """Limit of the GPU alone over this product's time, by product."""
    chosen = list(rows)
    whole = find_whole(chosen)
    return {
        row.shape: row.limit_share
        for row in chosen
        if (row.contender, row.dtype, row.memory, row.sms) == (OURS, dtype, memory, whole)
        and row.limit_share is not None
    }


def find_mean_speedup(rows: Sequence[HostRow], peer: str, dtype: str) -> float | None:
    """Geometric mean over the suite of a peer's time over ours; None unless all are measured."""
    ours, theirs = (pick_times(rows, name, dtype, "pageable") for name in (OURS, peer))
    if any(shape not in ours or shape not in theirs for shape in ALL_SHAPES):
        return None
    logs = [math.log(theirs[shape] / ours[shape]) for shape in ALL_SHAPES]
    return math.exp(math.fsum(logs) / len(logs))


def find_worst_ratio(rows: Sequence[HostRow], dtype: str) -> float | None:
    """Over the suite, the largest of our time over that of the fastest peer."""
    ours = pick_times(rows, OURS, dtype, "pageable")
    peers = [pick_times(rows, peer, dtype, "pageable") for peer in PEERS]
    if any(shape not in times for shape in ALL_SHAPES for times in (ours, *peers)):
        return None
    return max(ours[shape] / min(times[shape] for times in peers) for shape in ALL_SHAPES)


def find_hybrid_gain(
    rows: Sequence[HostRow], shape: Shape, dtype: str, sms: int, memory: str = "pageable"
) -> float | None:
    """Speed of both devices together over that of the better one; None unless measured."""
    ours = pick_times(rows, OURS, dtype, memory, sms).get(shape)
    alone = [
        times[shape]
        for name in ALONE
        if shape in (times := pick_times(rows, name, dtype, memory, sms))
    ]
    return None if ours is None or not alone else min(alone) / ours


def pick_sweeps(
    regret: Iterable[RegretRow],
    dtype: str,
    budgets: Sequence[int],
    shapes: Sequence[Shape] = ALL_SHAPES,
) -> list[RegretRow]:
    """Sweeps at some products, with the whole GPU and these budgets of multiprocessors."""
    chosen = list(regret)
    wanted = {find_whole(chosen), *budgets}
    return [
        row for row in chosen if row.dtype == dtype and row.shape in shapes and row.sms in wanted
    ]


def find_percentile(values: Sequence[float], percent: int) -> float | None:
    """The nearest-rank percentile: the least value with so many per cent at or below it."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def list_errors(sweeps: Iterable[RegretRow], part: str) -> list[float]:
    """|predicted - measured| / measured of "gpu", "cpu" or "total", where that part took time."""
    pairs = [(row.predicted_seconds[part], row.measured_seconds[part]) for row in sweeps]
    return [abs(predicted - measured) / measured for predicted, measured in pairs if measured > 0]


def _list_limit_promises(rows: Sequence[HostRow], dtype: str) -> list[Promise]:
    shares = find_limit_shares(rows, dtype, "pinned")

    def promise(shapes: Sequence[Shape], asked: float) -> Promise:
        what = f"pinned: share of the limit, {_name(shapes)}"
        found = _find_least([shares.get(shape) for shape in shapes])
        commits = find_commits(rows, shapes, dtype, "pinned")
        return Promise(what, dtype, asked, found, commits=commits)

    return [
        promise(NEAR_LIMIT, 0.9),
        promise(NEARLY_LIMIT, 0.8),
        promise(BEYOND_LIMIT, 1.12),
        promise(JUST_BEYOND, 1.0),
    ]


def _list_peer_promises(rows: Sequence[HostRow], dtype: str) -> list[Promise]:
    commits = find_commits(rows, ALL_SHAPES, dtype, "pageable")
    means = (("cublasxt", "tuned cublasXt", 2.0), ("cupy", "plain CuPy", 4.0))
    promises = [
        Promise(
            f"pageable: mean speed over {name}'s",
            *(dtype, asked, find_mean_speedup(rows, peer, dtype)),
            commits=commits,
        )
        for peer, name, asked in means
    ]
    what, worst = "pageable: largest time over the fastest other's", find_worst_ratio(rows, dtype)
    return [*promises, Promise(what, dtype, 1.0, worst, at_least=False, commits=commits)]


def _list_regret_promises(regret: Sequence[RegretRow], dtype: str) -> list[Promise]:
    sweeps = pick_sweeps(regret, dtype, REGRET_BUDGETS)
    regrets = [row.regret for row in sweeps]
    worst = max((row.over_better_alone for row in sweeps), default=None)
    found = [
        ("regret of F, median", 1.02, find_percentile(regrets, 50)),
        ("regret of F, 95th percentile", 1.06, find_percentile(regrets, 95)),
        ("largest time over the better device alone's", 1.02, worst),
    ]
    for part in ("gpu", "cpu", "total"):
        errors = list_errors(sweeps, part)
        found += [
            (f"error of predicted {part} seconds, median", 0.05, find_percentile(errors, 50)),
            (f"the same, 95th percentile ({part})", 0.12, find_percentile(errors, 95)),
        ]
    commits = frozenset(row.commit for row in sweeps)
    return [
        Promise(what, dtype, asked, of, at_least=False, commits=commits)
        for what, asked, of in found
    ]


def _find_least(values: Sequence[float | None]) -> float | None:
    """The least; None unless all are known."""
    known = [value for value in values if value is not None]
    return min(known) if known and len(known) == len(values) else None


def _name(shapes: Sequence[Shape]) -> str:
    return ", ".join(map(name_shape, shapes))
