"""Baselines that take turns at one case: rounds in which each has its share of the time."""

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from benchmarks.common.turns import take_turns
from benchmarks.http.baselines.baseline import Baseline, BaselineFailed, Name
from benchmarks.http.clients.load import Load
from benchmarks.http.clients.message import AnswerMalformed
from benchmarks.http.clients.product import Product, WrongAnswer
from benchmarks.http.rows import Case, Row, summarize_rounds

ROUNDS: Final = 5
LEAST_ROUNDS: Final = 3


def summarize_loads(case: Case, baseline: str, loads: Sequence[Load]) -> Row | None:
    """The row of a baseline's rounds; None if every request was refused."""
    answered = [load for load in loads if load.seconds]
    if not answered:
        return None
    used = sum(load.client_seconds for load in answered)
    return summarize_rounds(
        *(case, baseline, [load.seconds for load in answered]),
        rate=statistics.median(len(x.seconds) / x.elapsed_seconds for x in answered),
        refused=sum(load.refused for load in loads),
        client_share=used / sum(load.elapsed_seconds for load in answered) if used else None,
    )


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
        except (OSError, AnswerMalformed, BaselineFailed) as error:
            failures[baseline.name] = f"{type(error).__name__}: {error}"
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
    return add_floors({name: row for name, row in rows.items() if row is not None}), failures


def add_floors(rows: Mapping[str, Row]) -> list[Row]:
    """The rows of a case with their floors: transport and executor together."""
    executor = rows[Name.EXECUTOR].p50_seconds if Name.EXECUTOR in rows else None

    def add(row: Row) -> Row:
        if row.baseline in {Name.EXECUTOR, Name.OURS_LEASE, Name.OURS_NEW_LEASE}:
            return replace(row, floor_seconds=executor)
        transport = rows.get(
            Name.FLOOR_UNIX if row.baseline in {Name.OURS_UNIX, Name.FLOOR_UNIX} else Name.FLOOR
        )
        if transport is None or executor is None:
            return row
        # Several clients wait for each other, so the time for each follows from the rate.
        moved = transport.p50_seconds if row.clients == 1 else row.clients / transport.rate
        least = moved + executor if row.clients == 1 else max(moved, row.clients * executor)
        if row.baseline not in {Name.FLOOR, Name.FLOOR_UNIX}:
            return replace(row, floor_seconds=least)
        return replace(row, floor_seconds=least, transport_seconds=moved, executor_seconds=executor)

    return [add(row) for row in rows.values()]
