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
"""Pause after which cores sleep, too, as between products with other work; chosen. Products that
all threads share then took 0.1 to 1.2 ms longer on 32 virtual cores: the threads wake up one after
the other."""

CORE_BYTES: Final = 4 << 20
"""Memory that is written to empty a core's own caches, as any other work does; chosen. A tiny
product from page-locked memory took 0.10 ms at once, 0.17 ms between other tiny ones, 0.22 ms after
this and 0.43 ms after `CACHES_BYTES` (H100, 16 virtual cores; d4d7ed9)."""

CACHES_BYTES: Final = 128 << 20
"""Memory that is written to empty all caches, as large operands do. Chosen: more than most
last-level caches hold."""

LEAST_SAMPLES: Final = 3
"""Fewest measurements, however late it is; chosen."""


def repeat(
    measure: Callable[[], float],
    budget_seconds: float,
    *,
    rest_seconds: float = 0.0,
    evicted_bytes: int = 0,
    until: float = math.inf,
) -> float:
    """Median of as many measurements as fit in a time, at least three, after a warm-up.

    Args:
        measure: Returns the seconds of one measurement.
        budget_seconds: Time of all measurements.
        rest_seconds: Pause before each.
        evicted_bytes: Memory that is written before each, as other work between products does:
            `CORE_BYTES` or `CACHES_BYTES`. All other threads fall asleep during that.
        until: Time (`time.perf_counter`) after which `LEAST_SAMPLES` are enough.
    """
    measure()
    samples: list[float] = []
    deadline = min(time.perf_counter() + budget_seconds, until)
    while len(samples) < LEAST_SAMPLES or time.perf_counter() < deadline:
        if evicted_bytes:
            _get_filler()[:evicted_bytes] = 0
        time.sleep(rest_seconds)
        samples.append(measure())
    return statistics.median(samples)


@cache
def _get_filler() -> NDArray[Any]:
    return np.empty(CACHES_BYTES, np.uint8)
