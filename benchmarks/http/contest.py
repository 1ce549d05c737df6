"""Baselines that take turns at one case: rounds in which each has its share of the time."""

import statistics
import time
from collections.abc import Sequence
from typing import Final

from benchmarks.common.turns import take_turns
from benchmarks.http.baselines import Baseline, BaselineFailed
from benchmarks.http.client import Load
from benchmarks.http.product import Product, WrongAnswer
from benchmarks.http.rows import Case, Row, summarize_rounds

ROUNDS: Final = 5
LEAST_ROUNDS: Final = 3


def measure_case(
    case: Case, baselines: Sequence[Baseline], products: Sequence[Product], seconds: float
) -> tuple[list[Row], dict[str, str]]:
    """Let baselines take turns.

    Args:
        case: The case.
        baselines: Those that take part; each computes a first product that does not count.
        products: Products of the case's size.
        seconds: Time for ROUNDS rounds. If they take longer there are LEAST_ROUNDS, and one if they
            take several times as long.

    Returns:
        The rows, and why others have none.

    Raises:
        WrongAnswer: A baseline's answer is not its product.
    """
    share = seconds / (ROUNDS * max(1, len(baselines)))
    loads: dict[Baseline, list[Load]] = {baseline: [] for baseline in baselines}
    failures: dict[str, str] = {}

    def measure(baseline: Baseline, clients: int, seconds: float) -> None:
        try:
            loads[baseline].append(baseline.measure(products, clients, seconds))
        except WrongAnswer as error:
            raise WrongAnswer(f"{baseline.name} at {case}: {error}") from error
        except BaselineFailed as error:
            failures[baseline.name] = str(error)
            del loads[baseline]

    until = time.perf_counter() + seconds
    for baseline in baselines:
        measure(baseline, 1, 0.0)
    for one in loads.values():
        one.clear()
    for _, baseline in take_turns(
        loads, ROUNDS, least=LEAST_ROUNDS, until=until, latest=until + seconds
    ):
        if baseline in loads:
            measure(baseline, case.clients, share)
    rows = {one.name: summarize_loads(case, one.name, of) for one, of in loads.items()}
    failures |= {name: "every request was refused" for name, row in rows.items() if row is None}
    return [row for row in rows.values() if row is not None], failures


def summarize_loads(case: Case, baseline: str, loads: Sequence[Load]) -> Row | None:
    """The row of a baseline's rounds; None if every request was refused."""
    answered = [load for load in loads if load.seconds]
    if not answered:
        return None
    return summarize_rounds(
        *(case, baseline, [load.seconds for load in answered]),
        rate=statistics.median(len(x.seconds) / x.elapsed_seconds for x in answered),
        refused=sum(load.refused for load in loads),
    )
