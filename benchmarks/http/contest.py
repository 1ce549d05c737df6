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
        seconds: Time for ROUNDS rounds. If they take longer there are LEAST_ROUNDS.

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
    for _, baseline in take_turns(loads, ROUNDS, least=LEAST_ROUNDS, until=until):
        if baseline in loads:
            measure(baseline, case.clients, share)
    rows = []
    for baseline, of in loads.items():
        answered = [load for load in of if load.seconds]
        if answered:
            rows.append(
                summarize_rounds(
                    *(case, baseline.name, [load.seconds for load in answered]),
                    rate=statistics.median(len(x.seconds) / x.elapsed_seconds for x in answered),
                    refused=sum(load.refused for load in of),
                )
            )
        else:
            failures[baseline.name] = "every request was refused"
    return rows, failures
