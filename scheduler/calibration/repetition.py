"""Repeated measurements."""

import math
import statistics
import time
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

REST_SECONDS: Final = 0.001
"""Pause after which all threads sleep, as they do when the next of many jobs begins."""

LONG_REST_SECONDS: Final = 0.02
"""Pause after which cores sleep, too, as they do where other work comes between products; chosen.
Products that all threads share then took 0.1 to 1.2 ms longer on 32 virtual cores: the threads wake
up one after the other."""

_EVICTED_BYTES: Final = 128 << 20
"""Memory that is written to empty the caches; chosen: more than most last-level caches hold."""

LEAST_SAMPLES: Final = 3
"""Fewest measurements, however late it is; chosen."""


def repeat(
    measure: Callable[[], float],
    budget_seconds: float,
    *,
    rest_seconds: float = 0.0,
    cold: bool = False,
    until: float = math.inf,
) -> float:
    """Median of as many measurements as fit in a time, at least three, after a warm-up.

    Args:
        measure: Returns the seconds of one measurement.
        budget_seconds: Time of all measurements.
        rest_seconds: Pause before each.
        cold: Whether the caches are emptied before each, as other work between products does.
        until: Time (`time.perf_counter`) after which `LEAST_SAMPLES` are enough.
    """
    measure()
    samples: list[float] = []
    deadline = min(time.perf_counter() + budget_seconds, until)
    while len(samples) < LEAST_SAMPLES or time.perf_counter() < deadline:
        if cold:
            _empty_caches()
        time.sleep(rest_seconds)
        samples.append(measure())
    return statistics.median(samples)


def _empty_caches() -> None:
    """Write more memory than caches hold; meanwhile all other threads fall asleep."""
    _get_filler().fill(0)


@cache
def _get_filler() -> NDArray[Any]:
    return np.empty(_EVICTED_BYTES, np.uint8)
