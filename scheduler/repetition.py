"""Measuring something several times."""

import statistics
import time
from collections.abc import Callable


def repeat(
    measure: Callable[[], float], budget_seconds: float, *, rest_seconds: float = 0.0
) -> float:
    """The median of as many as fit in the time set aside, of at least three after a warm-up.

    Args:
        measure: Returns the seconds of one.
        budget_seconds: The time.
        rest_seconds: A pause before each.
    """
    measure()
    samples: list[float] = []
    deadline = time.perf_counter() + budget_seconds
    while len(samples) < 3 or time.perf_counter() < deadline:
        time.sleep(rest_seconds)
        samples.append(measure())
    return statistics.median(samples)
