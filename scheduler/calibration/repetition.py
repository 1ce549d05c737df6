"""Measuring something several times."""

import statistics
import time
from collections.abc import Callable
from typing import Final

REST_SECONDS: Final = 0.001
"""Behind such a pause all threads sleep, as the next job of many finds them. Behind a longer one a
product takes longer still: up to a millisecond more after 20 ms, by what else uses the host."""


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
