"""Repeated measurements."""

import math
import statistics
import time
from collections.abc import Callable
from typing import Final, TypeVar

REST_SECONDS: Final = 0.001
"""Pause after which threads sleep; chosen."""

BRIEF_SECONDS: Final = 5e-3
"""Time of a product above which the first one after a pause takes as long as the next; chosen."""

LEAST_SAMPLES: Final = 3
"""Fewest measurements, however late it is; chosen."""

_TRIES: Final = 3
"""Most measurements of what may turn out to be impossible; chosen."""

T = TypeVar("T")


def repeat_in_pairs(
    measure: Callable[[], float], budget_seconds: float, *, until: float = math.inf
) -> float:
    """As `repeat`, but after a pause each time, and of brief products the second one counts.

    The first one takes longer: threads and cores sleep, and caches lack its code. Many products
    in succession took three quarters of the second one's time on a GPU (0.1 ms), and four times
    that on 32 cores.
    """

    def measure_next() -> float:
        time.sleep(REST_SECONDS)
        seconds = measure()
        return measure() if seconds < BRIEF_SECONDS else seconds

    return repeat(measure_next, budget_seconds, until=until)


def repeat(
    measure: Callable[[], float], budget_seconds: float, *, until: float = math.inf
) -> float:
    """Median of as many measurements as fit in a time, at least three, after a warm-up.

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


def find_possible(measure: Callable[[], T], is_possible: Callable[[T], bool]) -> T | None:
    """The first possible one of a few measurements; None if none is.

    Other work may give the difference of two times any value, even one below zero.

    Args:
        measure: Measures.
        is_possible: Whether the machine can do what was measured.
    """
    return next(filter(is_possible, (measure() for _ in range(_TRIES))), None)
