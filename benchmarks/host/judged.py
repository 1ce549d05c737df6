"""The bounds that figures should meet, and whether they do; a run prints them at its end."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from benchmarks.common.results import ResultsError
from benchmarks.common.shapes import DTYPES, Shape, make_cube
from benchmarks.host.baselines.lineup import OURS
from benchmarks.host.judgement import (
    Judgement,
    judge_percentiles,
    judge_speed,
    judge_values,
    render_judgements,
)
from benchmarks.host.predictions import judge_predictions
from benchmarks.host.results import (
    SLOWER_SECONDS,
    SLOWER_SHARE,
    Contest,
    HostResults,
    HostRow,
    list_contests,
    read_host_file,
)
from benchmarks.host.several import judge_several
from benchmarks.host.suite import ALL_SHAPES, SMALL_SIZES
from wavetrim.scheduler.problem import MEMORIES

LEAST_MEANS: Final = {"pinned": 1.10, "pageable": 4.0}
"""Least geometric mean of the speed over the fastest other's, at the random products."""

REGRETS: Final = {90: 1.02, 95: 1.06}
"""Largest regret at each percentile."""

KEPT_SHARE: Final = 0.98
"""Share of earlier figures that must be kept."""

REACHED_SHARES: Final[dict[Shape, float]] = {make_cube(8192): 0.966, make_cube(16384): 0.965}
"""Shares of the limit at commit 0407190, page-locked float32."""

REACHED_MEANS: Final = {"cublasxt": 3.0, "cupy": 6.8}
"""Geometric means of the speed over theirs at commit 0407190, over the suite, pageable float32."""


def describe_judgements(file: Path) -> str:
    """The bounds of a results file as a table; why there is none if it has no rows."""
    try:
        return render_judgements(judge(read_host_file(file)))
    except ResultsError as error:
        return str(error)


def judge(results: HostResults) -> list[Judgement]:
    """All bounds of what a file holds: contests, sweeps, or both."""
    if results.is_several and results.rows:
        return judge_several(results)
    judgements = []
    if results.rows:
        contests = list_contests(results.rows)
        judgements += _judge_contests(contests) + judge_predictions(results.rows)
        judgements += _judge_reached(results.rows, contests)
    if results.regret:
        regrets = [row.regret for row in results.regret]
        judgements += judge_percentiles("regret of F", REGRETS, regrets)
    return judgements


def _judge_contests(contests: Sequence[Contest]) -> list[Judgement]:
    slower = f"slower than the fastest other by {SLOWER_SHARE:.0%} + {SLOWER_SECONDS * 1e3:g} ms"
    excesses: dict[str, Iterable[float | None]] = {
        f"products {slower}": [one.excess for one in contests],
        f"first calls after another's work {slower}": [one.first_excess for one in contests],
    }
    judgements = [
        judge_values(what, 0, found, lambda x: sum(one > 1 for one in x))
        for what, found in excesses.items()
    ]
    small = f"{SMALL_SIZES[0]}³ to {SMALL_SIZES[-1]}³"
    for memory in reversed(MEMORIES):
        of = [one for one in contests if one.ours.memory == memory]
        drawn = (one.find_ratio(one.fastest.baseline) for one in of if one.ours.group == "random")
        streams = (one.find_ratio("cupy-streams") for one in of if _is_small(one.ours))
        fastest = f"random products, {memory}: mean speed over the fastest other"
        judgements += [
            judge_speed(fastest, LEAST_MEANS[memory], drawn),
            judge_values(f"{small}, {memory}: largest time over cupy-streams'", 1.0, streams, max),
        ]
    return judgements


def _is_small(row: HostRow) -> bool:
    return row.is_cube and row.m <= SMALL_SIZES[-1]


def _judge_reached(rows: Sequence[HostRow], contests: Sequence[Contest]) -> list[Judgement]:
    """Earlier figures that must be kept."""
    shares = {
        row.shape: row.limit_share
        for row in rows
        if (row.baseline, row.dtype, row.memory) == (OURS, "float32", "pinned")
    }
    judgements = [
        judge_values(
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
        judge_speed(
            f"suite, pageable, {dtype}: mean speed over {name}",
            round(KEPT_SHARE * reached, 3),
            (one.find_ratio(name) for one in suite if one.ours.dtype == dtype),
        )
        for name, reached in REACHED_MEANS.items()
        for dtype in DTYPES
    ]
