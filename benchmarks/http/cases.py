"""Which products a run asks for, the memory that they need, and how its time is divided."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.http.rows import Case

SIZES: Final = (64, 256, 512, 1024, 2048, 4096, 8192)
CLIENTS: Final = (1, 4, 16, 512)
MOST_SIZE: Final = {1: 8192, 4: 4096, 16: 1024, 512: 256}
"""The largest size for each number of clients; another number has that of the next larger one."""

SIZE_ON_FEW_CORES: Final = 2048
"""Largest size by default on a machine without a GPU."""

COPIES: Final = 4
"""Copies of a request's matrices: the client's, the request, the server's, and what it parses."""

_MEMORY_SHARE: Final = 0.5
"""Share of the free memory that a request's copies may take; chosen."""


def list_cases(
    sizes: Sequence[int], dtypes: Sequence[str], clients: Sequence[int]
) -> list[tuple[Case, int]]:
    """Products up to MOST_SIZE, small ones first, and the free memory that each needs, in bytes."""
    return [
        (
            Case("product", size, dtype, count),
            round(COPIES * count * count_bytes(size, dtype) / _MEMORY_SHARE),
        )
        for size, count, dtype in itertools.product(sorted(sizes), sorted(clients), dtypes)
        if size <= find_most_size(count)
    ]


def find_most_size(clients: int) -> int:
    """The largest size for a number of clients."""
    larger = [count for count in MOST_SIZE if count >= clients]
    return MOST_SIZE[min(larger)] if larger else min(MOST_SIZE.values())


def count_bytes(size: int, dtype: str) -> int:
    """Bytes of three square matrices."""
    return 3 * size**2 * np.dtype(dtype).itemsize


def count_variants(size: int, dtype: str) -> int:
    """Different products of a size that take turns, so that an answer sent again is detected."""
    return max(1, min(4, 2**28 // count_bytes(size, dtype)))


def weigh_case(case: Case) -> float:
    """A case's weight when a run's time is divided: 1 for a small one.

    A small case needs many requests, because a process that has waited for its turn is slow at
    first. A large one needs the time of its bytes, at half a GB/s.
    """
    assert isinstance(case.size, int), "products are squares"
    return 1.0 + case.clients * count_bytes(case.size, case.dtype) / 5e8


def find_free_memory() -> int:
    """Bytes that the system says are available."""
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/meminfo has no MemAvailable")
