"""Baselines that take turns at one case: rounds in which each has its share of the time."""

import time
from collections.abc import Sequence
from typing import Final

from benchmarks.common.turns import take_turns
from benchmarks.http.baselines import Baseline
from benchmarks.http.client import Load
from benchmarks.http.product import Product
from benchmarks.http.rows import Case, Row, summarize_rounds

ROUNDS: Final = 5
LEAST_ROUNDS: Final = 3


def measure_case(
    case: Case, baselines: Sequence[Baseline], products: Sequence[Product], seconds: float
) -> list[Row]:
    """Let baselines take turns; their rows.

    Args:
        case: The case.
        baselines: The baselines; the first product of each does not count.
        products: Products of the case's size.
        seconds: Time for ROUNDS rounds. If they take longer there are LEAST_ROUNDS.

    Raises:
        WrongAnswer: A baseline's answer is not its product.
        OSError: A connection broke.
        ClientError: A lease failed.
    """
    share = seconds / (ROUNDS * len(baselines))
    loads: dict[Baseline, list[Load]] = {baseline: [] for baseline in baselines}
    until = time.perf_counter() + seconds
    for baseline in baselines:
        baseline.measure(products, 1, 0.0)
    for _, baseline in take_turns(loads, ROUNDS, least=LEAST_ROUNDS, until=until):
        loads[baseline].append(baseline.measure(products, case.clients, share))
    return [summarize_rounds(case, baseline.name, of) for baseline, of in loads.items()]
