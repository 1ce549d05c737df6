"""Which products in host memory are measured, and about how long that takes."""

from typing import Final

import numpy as np

from benchmarks.measured import Shape

SUITE: Final[tuple[Shape, ...]] = (
    *((size, size, size) for size in (1024, 2048, 4096, 8192, 16384)),
    (16384, 16384, 256),
    (65536, 256, 256),
    (256, 8192, 8192),
    (8192, 1024, 8192),
    (1, 8192, 8192),
    (8192, 8192, 1),
    (3456, 4096, 4096),
    (4224, 4224, 4224),
    (100_003, 64, 64),
    (333, 4099, 1021),
    (32768, 32768, 4096),
)
"""The products that were named."""

OWN: Final[tuple[Shape, ...]] = (
    (4096, 11008, 4096),
    (512, 512, 65536),
    (64, 8192, 8192),
    (8192, 64, 8192),
    (16384, 16384, 64),
    (20000, 1000, 1000),
    (2049, 2049, 2049),
    (6144, 6144, 6144),
    (12288, 3072, 768),
    (1531, 7919, 3001),
)
"""Ten more: a layer of a language model, a long K, few rows, few columns, copies alone, a tall A,
one more than a power of two, and others between the powers of two, two of them of primes."""

ALL_SHAPES: Final = (*SUITE, *OWN)
"""The products that promises are made for."""

DTYPES: Final = ("float32", "float64")

SQUARES_HELD: Final[tuple[Shape, ...]] = ((4096, 4096, 4096), (8192, 8192, 8192))
"""Products at which the GPU is held to some multiprocessors, as if it were a smaller one."""

HELD_SMS: Final = (32, 8, 4)
REGRET_SMS: Final = (None, 32, 8)
"""Budgets of multiprocessors at which F is searched; None for all."""

_SLOW_WAY_BYTES_A_SECOND: Final = {"pageable": 1.5e9, "pinned": 2e10}
_TUNED_BYTES_A_SECOND: Final = {"pageable": 9e9, "pinned": 3e10}
_GPU_FLOPS_A_SECOND: Final = 5e13
_CPU_FLOPS_A_SECOND: Final = {"float32": 1.8e12, "float64": 1.1e12}
_ROUNDS: Final = 5
_TUNINGS: Final = 12
_DRAWN_BYTES_A_SECOND: Final = 3e9


def count_bytes(shape: Shape, dtype: str) -> int:
    """Bytes of A, B and C together."""
    m, n, k = shape
    return (m * k + k * n + m * n) * np.dtype(dtype).itemsize


def estimate_seconds(shape: Shape, dtype: str, memory: str) -> float:
    """About what all contenders together take at a product, on an H200 with 16 cores."""
    m, n, k = shape
    flops, moved_bytes = 2 * m * n * k, count_bytes(shape, dtype)
    compute_seconds = flops / _GPU_FLOPS_A_SECOND
    a_round = moved_bytes / _SLOW_WAY_BYTES_A_SECOND[memory] + 6 * compute_seconds
    tuning = _TUNINGS * (moved_bytes / _TUNED_BYTES_A_SECOND[memory] + compute_seconds)
    on_cpu = flops / _CPU_FLOPS_A_SECOND[dtype] if memory == "pageable" else 0.0
    return 1.0 + moved_bytes / _DRAWN_BYTES_A_SECOND + on_cpu + _ROUNDS * a_round + tuning


def name_shape(shape: Shape) -> str:
    """A product as people write it."""
    m, n, k = shape
    return f"{m}³" if m == n == k else f"{m}×{n}×{k}"
