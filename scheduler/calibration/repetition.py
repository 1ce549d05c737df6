"""Repeated measurements."""

import statistics
import time
from collections.abc import Callable
from typing import Final

REST_SECONDS: Final = 0.001
"""Pause after which all threads sleep, as they do when the next of many jobs begins. After a longer
pause a product takes longer: up to a millisecond more after 20 ms, if others use the host."""


def repeat(
    measure: Callable[[], float], budget_seconds: float, *, rest_seconds: float = 0.0
) -> float:
    """Median of as many measurements as fit in a time, at least three, after a warm-up.

    Args:
        measure: Returns the seconds of one measurement.
        budget_seconds: Time of all measurements.
        rest_seconds: Pause before each.
    """
    measure()
    samples: list[float] = []
    deadline = time.perf_counter() + budget_seconds
    while len(samples) < 3 or time.perf_counter() < deadline:
        time.sleep(rest_seconds)
        samples.append(measure())
    return statistics.median(samples)
