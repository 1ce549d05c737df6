"""Repeated measurements."""

import math
import statistics
import time
from collections.abc import Callable
from typing import Final

LEAST_SAMPLES: Final = 3
"""Fewest measurements, however late it is; chosen."""


def repeat(
    measure: Callable[[], float], budget_seconds: float, *, until: float = math.inf
) -> float:
    """Median of as many measurements as fit in a time, at least three, after a warm-up.

    They follow each other at once, like the products of a loop. The first products after other work
    take longer: threads and cores sleep, and caches are empty.

    Args:
        measure: Returns the seconds of one measurement.
        budget_seconds: Time of all measurements.
        until: Time (`time.perf_counter`) after which `LEAST_SAMPLES` are enough.
    """
    measure()
    samples: list[float] = []
    deadline = min(time.perf_counter() + budget_seconds, until)
    while len(samples) < LEAST_SAMPLES or time.perf_counter() < deadline:
        samples.append(measure())
    return statistics.median(samples)
