"""Measuring something several times."""

import statistics
import time
from collections.abc import Callable, Sequence


def repeat(
    measure: Callable[[], float],
    budget_seconds: float,
    *,
    choose: Callable[[Sequence[float]], float] = statistics.median,
) -> float:
    """What is chosen of as many as fit in the time set aside, of at least three after a warm-up."""
    measure()
    samples: list[float] = []
    deadline = time.perf_counter() + budget_seconds
    while len(samples) < 3 or time.perf_counter() < deadline:
        samples.append(measure())
    return choose(samples)
