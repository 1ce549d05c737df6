"""What is asked of the figures, and whether they have it."""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from benchmarks.common.shapes import DTYPES, Shape, make_cube
from benchmarks.common.tables import render_columns, show
from benchmarks.host.baselines.lineup import OTHERS, OURS, PRESET
from benchmarks.host.results import HostResults, HostRow, SweepRow
from benchmarks.host.suite import ALL_SHAPES, SMALL_SIZES
from wavetrim.scheduler.problem import MEMORIES

SLOWER_SHARE: Final = 0.03
SLOWER_SECONDS: Final = 0.05e-3
"""A product counts as slower beyond the fastest other's time, this share and these seconds."""

LEAST_MEANS: Final = {"pinned": 1.10, "pageable": 4.0}
"""Geometric means of the speed over the fastest other's, at the random products."""

ERRORS: Final = {OURS: (0.03, 0.10), PRESET: (0.10, 0.30)}
"""Of predicted seconds, median and 95th percentile: calibrated, and from a preset alone."""

LEARNING_PRODUCTS: Final = 50
LEARNED_ERROR: Final = 0.08
"""Median error of predictions from a preset once so many products have corrected it."""

REGRETS: Final = {90: 1.02, 95: 1.06}
MOVING_RATIO: Final = 1.0
BUSY_SPEED: Final = 1.2

KEPT_SHARE: Final = 0.98
"""Share that must be kept of what was reached before."""

REACHED_SHARES: Final[dict[Shape, float]] = {make_cube(8192): 0.966, make_cube(16384): 0.965}
"""Of the limit, page-locked float32, at commit 0407190."""

REACHED_MEANS: Final = {"cublasxt": 3.0, "cupy": 6.8}
"""Geometric means of the speed over theirs, over the suite, pageable float32, likewise."""


@dataclass(frozen=True, slots=True)
class Contest:
    """The rows of all baselines at one product, by baseline."""

    rows: Mapping[str, HostRow]

    @property
    def ours(self) -> HostRow:
        """This product's row."""
        return self.rows[OURS]

    @property
    def fastest(self) -> HostRow:
        """The fastest of the others."""
        others = [self.rows[name] for name in OTHERS if name in self.rows]
        return min(others, key=lambda row: row.seconds)

    @property
    def excess(self) -> float:
        """Our time over what it may be, at most 1."""
        allowed = self.fastest.seconds * (1 + SLOWER_SHARE) + SLOWER_SECONDS
        return self.ours.seconds / allowed

    def find_ratio(self, name: str) -> float | None:
        """Our time over a baseline's; None where that was not measured."""
        return self.ours.seconds / self.rows[name].seconds if name in self.rows else None


def list_contests(rows: Iterable[HostRow]) -> list[Contest]:
    """Contests of ours and at least one other.

    To the CPU page-locked memory is like any other, so NumPy's time counts for both kinds.
    """
    found: dict[tuple[Shape, str, str], dict[str, HostRow]] = {}
    for row in rows:
        found.setdefault((row.shape, row.dtype, row.memory), {})[row.baseline] = row
    for (shape, dtype, memory), by_name in found.items():
        pageable = found.get((shape, dtype, "pageable"), {})
        if memory == "pinned" and "numpy" in pageable:
            by_name["numpy"] = pageable["numpy"]
    return [
        Contest(by_name)
        for by_name in found.values()
        if OURS in by_name and any(name in by_name for name in OTHERS)
    ]


@dataclass(frozen=True, slots=True)
class Judgement:
    """Something that is asked of the figures.

    Attributes:
        what: The figure.
        bound: What it should be at least, or at most.
        found: What it is; None where it was not measured.
        count: Contests or sweeps that it was found from.
        at_least: Whether more is better.
    """

    what: str
    bound: float
    found: float | None
    count: int
    at_least: bool

    @property
    def met(self) -> bool | None:
        """Whether it is as asked; None where that was not measured."""
        if self.found is None:
            return None
        return self.found >= self.bound if self.at_least else self.found <= self.bound


def judge(results: HostResults) -> list[Judgement]:
    """All that is asked of what a file holds: contests, sweeps, or both."""
    judgements = []
    if results.rows:
        contests = list_contests(results.rows)
        judgements += _judge_contests(contests) + _judge_predictions(results.rows)
        judgements += _judge_reached(results.rows, contests)
    return judgements + (_judge_sweeps(results.regret) if results.regret else [])


def render_judgements(judgements: Iterable[Judgement]) -> str:
    """A table of what is asked, and what was found."""
    met = {True: "yes", False: "**no**", None: "not measured"}
    columns: dict[str, Callable[[Judgement], str]] = {
        "figure": lambda one: one.what,
        "bound": lambda one: f"{'≥' if one.at_least else '≤'} {one.bound:g}",
        "found": lambda one: show(one.found, ".3g" if one.bound == 0 else ".3f"),
        "of": lambda one: str(one.count),
        "met": lambda one: met[one.met],
    }
    return render_columns(columns, judgements)


def find_percentile(values: Sequence[float], percent: int) -> float:
    """The nearest-rank percentile: the least value with that many per cent at or below it."""
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


def list_errors(pairs: Iterable[tuple[float, float]]) -> list[float]:
    """|predicted - measured| / measured, of pairs of both, where something was measured."""
    return [abs(predicted - measured) / measured for predicted, measured in pairs if measured > 0]


def _judge(
    what: str,
    bound: float,
    values: Iterable[float | None],
    summarize: Callable[[Sequence[float]], float],
    *,
    at_least: bool = False,
) -> Judgement:
    known = [value for value in values if value is not None]
    found = summarize(known) if known else None
    return Judgement(what, bound, found, len(known), at_least)


def _judge_speed(what: str, bound: float, ratios: Iterable[float | None]) -> Judgement:
    """Geometric mean of a speed, from ratios of our time to another's."""

    def find_speed(known: Sequence[float]) -> float:
        return statistics.geometric_mean(1 / ratio for ratio in known)

    return _judge(what, bound, ratios, find_speed, at_least=True)


def _judge_percentiles(
    what: str, bounds: Mapping[int, float], values: Sequence[float]
) -> list[Judgement]:
    names = {percent: f"{percent}th percentile" for percent in bounds} | {50: "median"}
    return [
        _judge(
            f"{what}, {names[percent]}", bound, values, partial(find_percentile, percent=percent)
        )
        for percent, bound in bounds.items()
    ]


def _judge_contests(contests: Sequence[Contest]) -> list[Judgement]:
    slower = f"slower than the fastest other by {SLOWER_SHARE:.0%} + {SLOWER_SECONDS * 1e3:g} ms"
    excesses = (one.excess for one in contests)
    judgements = [_judge(f"products {slower}", 0, excesses, lambda x: sum(one > 1 for one in x))]
    small = f"{SMALL_SIZES[0]}³ to {SMALL_SIZES[-1]}³"
    for memory in reversed(MEMORIES):
        of = [one for one in contests if one.ours.memory == memory]
        drawn = (one.find_ratio(one.fastest.baseline) for one in of if one.ours.group == "random")
        streams = (one.find_ratio("cupy-streams") for one in of if _is_small(one.ours))
        fastest = f"random products, {memory}: mean speed over the fastest other"
        judgements += [
            _judge_speed(fastest, LEAST_MEANS[memory], drawn),
            _judge(f"{small}, {memory}: largest time over cupy-streams'", 1.0, streams, max),
        ]
    return judgements


def _is_small(row: HostRow) -> bool:
    return row.is_cube and row.m <= SMALL_SIZES[-1]


def _judge_predictions(rows: Sequence[HostRow]) -> list[Judgement]:
    """Of plans that took their turns among others."""
    judgements = []
    for name, (middle, high) in ERRORS.items():
        errors = list_errors(
            (row.predicted_seconds, row.seconds)
            for row in rows
            if row.baseline == name and row.predicted_seconds is not None
        )
        of = "calibrated" if name == OURS else "from a preset alone"
        bounds = {50: middle, 95: high}
        judgements += _judge_percentiles(f"error of predicted seconds, {of}", bounds, errors)
    learned = list_errors(
        (row.settings["learned_seconds"], row.seconds)
        for row in rows
        if row.settings and row.settings.get("products_before", 0) >= LEARNING_PRODUCTS
    )
    of = f"from a preset and {LEARNING_PRODUCTS} products"
    bounds = {50: LEARNED_ERROR}
    return judgements + _judge_percentiles(f"error of predicted seconds, {of}", bounds, learned)


def _judge_reached(rows: Sequence[HostRow], contests: Sequence[Contest]) -> list[Judgement]:
    """What must not be lost."""
    shares = {
        row.shape: row.limit_share
        for row in rows
        if (row.baseline, row.dtype, row.memory) == (OURS, "float32", "pinned")
    }
    judgements = [
        _judge(
            f"{shape[0]}³ float32, pinned: share of the limit",
            round(KEPT_SHARE * reached, 3),
            [shares.get(shape)],
            min,
            at_least=True,
        )
        for shape, reached in REACHED_SHARES.items()
    ]
    suite = [x for x in contests if x.ours.shape in ALL_SHAPES and x.ours.memory == "pageable"]
    return judgements + [
        _judge_speed(
            f"suite, pageable, {dtype}: mean speed over {name}",
            round(KEPT_SHARE * reached, 3),
            (one.find_ratio(name) for one in suite if one.ours.dtype == dtype),
        )
        for name, reached in REACHED_MEANS.items()
        for dtype in DTYPES
    ]


def _judge_sweeps(regret: Sequence[SweepRow]) -> list[Judgement]:
    splits = [row for row in regret if row.is_split]
    pinned = [f"the plan as it is over {of}its F pinned" for of in ("that of ", "")]
    moving = (row.moving_seconds / row.measured_seconds["total"] for row in splits)
    busy = (
        row.busy_moving_seconds / row.busy_pinned_seconds
        for row in splits
        if row.busy_pinned_seconds is not None and row.busy_moving_seconds is not None
    )
    return [
        *_judge_percentiles("regret of F", REGRETS, [row.regret for row in regret]),
        _judge(
            f"splits: mean time of {pinned[0]}", MOVING_RATIO, moving, statistics.geometric_mean
        ),
        _judge_speed(
            f"splits, half of the cores busy: mean speed of {pinned[1]}", BUSY_SPEED, busy
        ),
    ]
