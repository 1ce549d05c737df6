"""Repeated measurements, and the matrices of measured products."""

import statistics
import time
from collections.abc import Callable
from math import ceil
from typing import Final

import numpy as np

from wavetrim.kernels.transfer.pinned import pin_array
from wavetrim.native.plain import Matrix
from wavetrim.scheduler.problem import Memory

REST_SECONDS: Final = 1e-3
"""Pause before a measurement, after which threads and cores sleep; chosen."""

COLD_START_SECONDS: Final = 8e-3
"""Time of a product from which on the first after a pause takes as long as the next; chosen."""

LEAST_SAMPLES: Final = 3
"""Fewest measurements; chosen."""

_WORK_BYTES: Final = 4 << 20
"""Bytes of other work before a measurement, more than a core's own caches; chosen."""

_DRAWN: Final = 65_521
"""Random elements, which are repeated: to draw more would take longer than multiplying."""

_WORK: Final = np.ones(_WORK_BYTES, np.uint8), np.ones(_WORK_BYTES, np.uint8)


def repeat(measure: Callable[[], float], budget_seconds: float) -> float:
    """Median of as many measurements as fit in a time, at least three, after a warm-up.

    Each comes after a pause and other work, from which threads and cores have to wake up. So of
    products under COLD_START_SECONDS the second one counts. Many in a loop take three quarters of
    that time on a GPU (0.1 ms), and more than it on many cores. The minimum would mislead: on a
    virtual machine with 16 cores, single products took two thirds of the time of nearly all others.
    """
    measure()
    samples: list[float] = []
    deadline = time.perf_counter() + budget_seconds
    while len(samples) < LEAST_SAMPLES or time.perf_counter() < deadline:
        np.copyto(*_WORK)
        time.sleep(REST_SECONDS)
        seconds = measure()
        samples.append(measure() if seconds < COLD_START_SECONDS else seconds)
    return statistics.median(samples)


def time_call(call: Callable[[], object]) -> float:
    """Seconds of a call."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


class OperandMemory:
    """Memory of one kind for the matrices of a product, in place of the last ones.

    It is made once, because touching memory first takes long. A and B are random. C has memory of
    its own, so that no result becomes an operand. Both have at least `reserved_bytes`.
    """

    def __init__(self, memory: Memory = "pageable", reserved_bytes: int = 0) -> None:
        self._memory = memory
        self._reserved_bytes = reserved_bytes
        self._operands = self._result = np.empty(0, np.uint8)

    def take(self, dtype: str, m: int, n: int, k: int) -> tuple[Matrix, Matrix, Matrix]:
        """A[M,K], B[K,N] and C[M,N], of float32 or float64."""
        item_bytes = np.dtype(dtype).itemsize
        a_bytes, b_bytes, c_bytes = (item_bytes * size for size in (m * k, k * n, m * n))
        if len(self._operands) < a_bytes + b_bytes:
            self._operands = self._make(a_bytes + b_bytes)
            # As float64 they are numbers of usual size, too.
            drawn = np.random.default_rng(0).random(_DRAWN, np.float32) / 2 + np.float32(0.5)
            elements = self._operands.view(np.float32)
            for start in range(0, elements.size, _DRAWN):
                part = elements[start : start + _DRAWN]
                part[:] = drawn[: part.size]
        if len(self._result) < c_bytes:
            self._result = self._make(c_bytes)
            self._result.fill(0)
        a = self._operands[:a_bytes].view(dtype).reshape(m, k)
        b = self._operands[a_bytes : a_bytes + b_bytes].view(dtype).reshape(k, n)
        return a, b, self._result[:c_bytes].view(dtype).reshape(m, n)

    def _make(self, least_bytes: int) -> Matrix:
        size_bytes = max(self._reserved_bytes, 8 * ceil(least_bytes / 8))
        if self._memory == "pinned":
            return pin_array((size_bytes,), np.uint8)
        return np.empty(size_bytes, np.uint8)
