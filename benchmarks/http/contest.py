"""Baselines that take turns at one case: rounds in which each has its time, in a new order."""

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from benchmarks.http.baselines.baseline import (
    EXECUTOR,
    FLOOR,
    FLOOR_UNIX,
    OURS_LEASE,
    OURS_NEW_LEASE,
    OURS_UNIX,
    Baseline,
    BaselineFailed,
)
from benchmarks.http.baselines.executor_process import ExecutorFailed
from benchmarks.http.clients.load import Load
from benchmarks.http.clients.message import AnswerMalformed
from benchmarks.http.clients.product import Product, WrongAnswer
from benchmarks.http.rows import Case, Row

ROUNDS: Final = 5
LEAST_ROUNDS: Final = 3


@dataclass(slots=True)
class Score:
    """What one baseline's rounds have found."""

    loads: list[Load] = field(default_factory=list)

    def summarize(self, case: Case, baseline: str) -> Row | None:
        """The row of these rounds; None where every request was refused."""
        answered = [load for load in self.loads if load.seconds]
        if not answered:
            return None
        medians = [statistics.median(load.seconds) for load in answered]
        median = statistics.median(medians)
        together = np.concatenate([load.seconds for load in answered])
        p95, p99 = (float(np.percentile(together, percent)) for percent in (95, 99))
        elapsed = sum(load.elapsed_seconds for load in answered)
        used = sum(load.client_seconds for load in answered)
        return Row(
            what=case.what,
            size=case.size,
            dtype=case.dtype,
            clients=case.clients,
            baseline=baseline,
            p50_seconds=median,
            p95_seconds=p95,
            p99_seconds=p99,
            rate=statistics.median(len(x.seconds) / x.elapsed_seconds for x in answered),
            floor_seconds=None,
            spread=(max(medians) - min(medians)) / median,
            rounds=len(answered),
            requests=len(together),
            refused=sum(load.refused for load in self.loads),
            client_share=used / elapsed if used else None,
        )


def measure_case(
    case: Case, baselines: Sequence[Baseline], products: Sequence[Product], seconds: float
) -> tuple[list[Row], dict[str, str]]:
    """Let baselines take turns.

    Args:
        case: What they do.
        baselines: Those that take part; each computes a first product that does not count.
        products: Of the case's size.
        seconds: What it should take: ROUNDS rounds; LEAST_ROUNDS where they take longer, and one
            where they take several times as long.

    Returns:
        The rows, and why others have none.

    Raises:
        WrongAnswer: A baseline's answer is not its product.
    """
    share = seconds / (ROUNDS * max(1, len(baselines)))
    scores = {baseline: Score() for baseline in baselines}
    failures: dict[str, str] = {}
    until = time.perf_counter() + seconds
    for turn in range(-1, ROUNDS):
        late = time.perf_counter() - until
        if (late > 0 and turn >= LEAST_ROUNDS) or (late > seconds and turn > 0):
            break
        for baseline in rotate(list(scores), turn):
            try:
                if turn < 0:
                    baseline.measure(products, 1, 0.0)
                    continue
                load = baseline.measure(products, case.clients, share)
            except WrongAnswer as error:
                raise WrongAnswer(f"{baseline.name} at {case}: {error}") from error
            except (OSError, AnswerMalformed, BaselineFailed, ExecutorFailed) as error:
                failures[baseline.name] = f"{type(error).__name__}: {error}"
                del scores[baseline]
            else:
                scores[baseline].loads.append(load)
    rows = {one.name: score.summarize(case, one.name) for one, score in scores.items()}
    failures |= {name: "every request was refused" for name, row in rows.items() if row is None}
    return add_floors({name: row for name, row in rows.items() if row is not None}), failures


def rotate(baselines: Sequence[Baseline], turn: int) -> list[Baseline]:
    """All of them, another one first each turn."""
    first = turn % max(1, len(baselines))
    return [*baselines[first:], *baselines[:first]]


def add_floors(rows: Mapping[str, Row]) -> list[Row]:
    """The rows of a case with their floors, and the floors' own as the sum that they are.

    Args:
        rows: By baseline; a floor's is of its bytes alone.
    """
    executor = rows[EXECUTOR].p50_seconds if EXECUTOR in rows else None

    def add(row: Row) -> Row:
        if row.baseline in {EXECUTOR, OURS_LEASE, OURS_NEW_LEASE}:
            return replace(row, floor_seconds=executor)
        transport = rows.get(FLOOR_UNIX if row.baseline in {OURS_UNIX, FLOOR_UNIX} else FLOOR)
        if transport is None or executor is None:
            return row
        # Of several clients some wait while others are served: the rate tells what each pays.
        moved = transport.p50_seconds if row.clients == 1 else row.clients / transport.rate
        least = moved + executor if row.clients == 1 else max(moved, row.clients * executor)
        if row.baseline not in {FLOOR, FLOOR_UNIX}:
            return replace(row, floor_seconds=least)
        return replace(row, floor_seconds=least, transport_seconds=moved, executor_seconds=executor)

    return [add(row) for row in rows.values()]
