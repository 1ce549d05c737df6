"""Products that NumPy computes with BLAS's own threads, in a caller's process.

For these our threads need not wake up. After another product of NumPy they are faster, too, because
its threads spin for 0.1 s on the cores. Blocks are faster on a crowded machine, because a thread
without a core delays only its own block, and where they write past the caches.
"""

import time
from typing import Any, Final

import numpy as np

from wavetrim.cpu.blocks import MAX_BLOCK_FLOPS, count_useful, is_streamed
from wavetrim.cpu.products import multiply_quietly
from wavetrim.cpu.threads import usable_cores
from wavetrim.native.element_types import BLAS_DTYPES
from wavetrim.native.plain import Matrix
from wavetrim.native.pool import Crowd

_LOST_SECONDS: Final = 1e-3
"""Least time without its core for which a product counts as a loss. Chosen, as in native/waiting.c,
whose rule is applied here to BLAS's threads, also without a C library."""

_CROWDED_SECONDS: Final = 0.1
"""Time for which the machine counts as crowded after two losses in a row, doubled after each
further one; chosen, as there."""

_MOST_DOUBLINGS: Final = 4
"""Most doublings; chosen, as there."""

_SPIN_SECONDS: Final = 0.1
_REST_SECONDS: Final = 0.15
"""Time for which OpenBLAS's threads spin after a product, and after which they sleep; chosen."""

_LEAST_SHARED_BLOCKS: Final = 32
"""Least size of a product that threads share on a crowded machine, in smallest blocks
(MIN_BLOCK_TERMS). Chosen: one thread computes it in the 3 ms that another may wait for a core."""


class NumpyProducts:
    """Computes products by NumPy, and decides which, and when. Thread-safe.

    Args:
        threads: Threads that may compute; NumPy uses all cores.
    """

    def __init__(self, threads: int) -> None:
        self._is_free = threads >= usable_cores()
        self._most_flops = threads * MAX_BLOCK_FLOPS  # NumPy's product cannot be cancelled
        self._crowded_until = 0.0
        self._strikes = 0
        self._asleep_at = self._trusted_until = 0.0
        self._trust_seconds = _SPIN_SECONDS

    @property
    def lose_cores(self) -> bool:
        """Whether products of NumPy have lately lost their cores to other threads."""
        return time.monotonic() < self._crowded_until

    def suit(self, m: int, n: int, k: int, dtype: np.dtype[Any], *, is_crowded: bool) -> bool:
        """Whether NumPy computes A[m,k]·B[k,n] at least as fast as blocks."""
        if dtype not in BLAS_DTYPES:
            return False
        if is_crowded:  # then NumPy computes in one thread
            return count_useful(m, n, k) < _LEAST_SHARED_BLOCKS
        ends_soon = 2 * m * n * k <= self._most_flops
        if not self._is_free or not ends_soon or k == 1:  # NumPy has one thread for K = 1
            return False
        return not is_streamed(m, n, k, dtype.itemsize)

    def multiply(self, a: Matrix, b: Matrix, c: Matrix) -> None:
        """C ← A·B by BLAS's threads, also of stacks.

        Args:
            a: A[M,K] in a layout that BLAS accepts.
            b: B[K,N], likewise.
            c: C[M,N], row-major.
        """
        began, used = time.perf_counter(), time.thread_time()
        multiply_quietly(a, b, c)
        seconds = time.perf_counter() - began
        if seconds >= _LOST_SECONDS and not self.lose_cores:
            self._judge(seconds, lost_seconds=seconds - (time.thread_time() - used))

    def note_spinning(self) -> None:
        """Record that BLAS's threads, which spun already, have computed a product beside a GPU."""
        self._asleep_at = time.monotonic() + _REST_SECONDS

    def bound_spinning(self, crowd: Crowd) -> Crowd:
        """Who wants the cores beside a GPU: "contended" only while NumPy may go on computing.

        While BLAS's threads spin, NumPy computes what the CPU does, and so they spin on, also where
        nobody else calls BLAS any more. So it stops until they should sleep. If they spin then,
        others call BLAS, and NumPy goes on twice as long before it stops again.

        Args:
            crowd: Who else wants the cores now.
        """
        if crowd == "quiet":
            self._trust_seconds = _SPIN_SECONDS
        if crowd != "contended":
            return crowd
        now = time.monotonic()
        if now >= self._asleep_at:
            self._trusted_until = now + self._trust_seconds
            most_seconds = _SPIN_SECONDS * 2**_MOST_DOUBLINGS
            self._trust_seconds = min(2 * self._trust_seconds, most_seconds)
        return "contended" if now < self._trusted_until else "crowded"

    def _judge(self, seconds: float, *, lost_seconds: float) -> None:
        """Count losses in a row, from a product of at least a millisecond."""
        if lost_seconds >= _LOST_SECONDS:
            self._strikes += 1
        elif seconds >= 2 * _LOST_SECONDS:  # a shorter one says nothing
            self._strikes = 0
        if self._strikes >= 2:
            doublings = min(self._strikes - 2, _MOST_DOUBLINGS)
            self._crowded_until = time.monotonic() + _CROWDED_SECONDS * 2**doublings
