"""Measures what memory bounds on the CPU: narrow products, single rows, K = 1, and one thread."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeAlias

from wavetrim.cpu.model import find_core_cache_bytes, find_largest_cache_bytes
from wavetrim.scheduler.calibration.row_cost import RowCost
from wavetrim.scheduler.model.cpu import CpuRate
from wavetrim.scheduler.problem import ITEM_BYTES

MEMORY_BOUND: Final = "float32", "float64"
"""Element types whose products memory can bound."""

_LEAST_WRITE_SHARE: Final = 0.25
"""Least cost of an element of C beside its arithmetic, as a share of the time to write it; chosen.
Arithmetic hides little of that time: with K = 21 and 64 none to a half of it (2 and 32 cores)."""

_MOST_WRITES: Final = 4
"""Most cost of such an element, over the time to write it past the caches: a bound for noisy
measurements. Chosen: a C that goes through the caches is read twice and written twice, as BLAS
clears it first."""

_CACHED: Final = (512, 64), (16, 256)
_LEAST_ROWS: Final = 512
"""N and K of two products of which C or A fills half of the caches, and their least M; chosen."""

_NARROW: Final = 1 << 16, 64, 64
_TALL: Final = 1 << 14, 64, 4096
"""M, N, K of products with few columns; A of the second exceeds the caches."""

LEAST: Final = 16, 16, 16
_ALONE: Final = 2, 1024, 160
_DENSE: Final = 128, 128, 128
"""M, N, K of products that one thread computes: of nearly no time, of the time to read B, and of
the time of arithmetic; chosen."""

_MOST_COPY_COLUMNS: Final = 128
"""Most columns of arithmetic that packing A may cost, for noisy measurements."""

_LEAST_UNCACHED_BYTES: Final = 256 << 20
_UNCACHED: Final = 2.0
"""Least bytes of C with a small K, and of B with a single row, and their least multiple of the
largest cache; chosen."""

TimeProduct: TypeAlias = Callable[[int, int, int], float]
"""Measures the seconds of a product of M, N, K."""


def find_uncached_bytes() -> int:
    """Size of a matrix that no cache holds."""
    return max(_LEAST_UNCACHED_BYTES, round(_UNCACHED * find_largest_cache_bytes()))


def find_cache_bytes(threads: int) -> int:
    """Size of the caches that the threads' cores have for themselves."""
    return threads * find_core_cache_bytes()


def measure_memory(
    time_product: TimeProduct, rate: CpuRate, cost: RowCost, side: int, cache_bytes: int
) -> CpuRate:
    """The rate with what memory bounds: narrow products, single rows, K = 1, one thread.

    Args:
        time_product: Measures a product.
        rate: The rate so far: that of arithmetic, and the time of a call.
        cost: What a row costs by its arithmetic and its elements.
        side: Columns of large products.
        cache_bytes: From `find_cache_bytes`.
    """
    call_seconds = rate.call_seconds
    alone_seconds = time_product(*LEAST)
    m, n, k = _ALONE
    alone_elements = m * k + k * n + m * n
    rest = find_uncached_bytes() // ITEM_BYTES[rate.dtype] // side
    write_seconds, vector_seconds = (
        max(seconds - call_seconds, seconds / 2) / (rest * side)
        for seconds in (time_product(rest, side, 1), time_product(1, side, rest))
    )
    element_seconds = max(cost.element_seconds, _LEAST_WRITE_SHARE * write_seconds)
    read_seconds = max(0.0, time_product(*_ALONE) - alone_seconds) / alone_elements
    uncached = replace(
        rate,
        element_seconds=min(element_seconds, _MOST_WRITES * write_seconds),
        write_seconds=write_seconds,
        vector_seconds=vector_seconds,
        copy_columns=_find_copy_columns(cost, time_product(*_TALL) - call_seconds),
        narrow_seconds=max(0.0, time_product(*_NARROW) - call_seconds) / math.prod(_NARROW),
        alone_seconds=alone_seconds,
        alone_gflops=2e-9 * math.prod(_DENSE) / max(1e-9, time_product(*_DENSE) - alone_seconds),
        read_seconds=read_seconds,
    )
    return _measure_cached(time_product, uncached, cost, cache_bytes)


def _measure_cached(
    time_product: TimeProduct, rate: CpuRate, cost: RowCost, cache_bytes: int
) -> CpuRate:
    """The rate with the costs of elements of C and of packing A within the caches.

    They are at most those beyond the caches: both are differences of noisy times.
    """
    half = cache_bytes // 2 // ITEM_BYTES[rate.dtype]
    (wide, shallow_k), (narrow, deep_k) = _CACHED
    m = max(_LEAST_ROWS, half // deep_k)
    seconds = time_product(m, narrow, deep_k) - rate.call_seconds
    copy_columns = seconds / (2 * m * deep_k * cost.flop_seconds) - narrow
    copy_columns = min(max(0.0, copy_columns), rate.copy_columns)
    m = max(_LEAST_ROWS, half // wide)
    seconds = time_product(m, wide, shallow_k) - rate.call_seconds
    arithmetic_seconds = 2 * shallow_k * (wide + copy_columns) * cost.flop_seconds
    element_seconds = max(0.0, seconds / m - arithmetic_seconds) / wide
    return replace(
        rate,
        cached_element_seconds=min(element_seconds, rate.element_seconds),
        cached_copy_columns=copy_columns,
    )


def _find_copy_columns(cost: RowCost, seconds: float) -> float:
    """Cost of packing A in a product of few columns, in columns of arithmetic."""
    m, n, k = _TALL
    arithmetic_seconds = seconds / m - n * cost.element_seconds
    copy_columns = arithmetic_seconds / (2 * k * cost.flop_seconds) - n
    return min(max(0.0, copy_columns), _MOST_COPY_COLUMNS)
