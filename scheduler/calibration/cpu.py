"""Measures the CPU: a line of seconds over rows for each element type."""

import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from wavetrim.cpu.gemm import CpuPool
from wavetrim.cpu.model import find_core_cache_bytes, find_largest_cache_bytes
from wavetrim.scheduler.calibration.operands import draw_matrices
from wavetrim.scheduler.calibration.repetition import repeat_in_pairs
from wavetrim.scheduler.calibration.row_cost import RowCost, fit_row_cost
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.model.cpu import CpuModel, CpuRate
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.problem import ITEM_BYTES, GemmProblem
from wavetrim.scheduler.profile.estimate import estimate_cpu, share_cpu
from wavetrim.scheduler.profile.machine import MachineProfile

_FEW_ROWS: Final = 16, 64, 256
_MANY_ROWS: Final = 2048
_SIDES: Final = (256, 512, 1024, 2048, 4096)
"""Rows of the products that give the line, and sides of which one is taken as N and K."""

_SHORT_SIDE: Final = 256
"""N and K of a short product that all threads share; chosen. A call is most of its time."""

_SHALLOW_ROWS: Final = 1024
_SHALLOWER: Final = 16
_SHALLOW_K: Final = 64
"""Rows of a product of smaller K, and the divisor of K; for types whose products memory can bound,
its K, with a C that no cache holds. Chosen."""

_LEAST_WRITE_SHARE: Final = 0.25
"""Least cost of an element of C beside its arithmetic, as a share of the time to write it; chosen.
Arithmetic hides little of that time: with K = 21 and 64 none to a half of it (2 and 32 cores)."""

_CACHED: Final = (512, 64), (16, 256)
_LEAST_ROWS: Final = 512
"""N and K of two products of which C or A fills half of the caches, and their least M; chosen."""

_NARROW: Final = 1 << 16, 64, 64
_TALL: Final = 1 << 14, 64, 4096
"""M, N, K of products with few columns; A of the second exceeds the caches."""

_LEAST: Final = 16, 16, 16
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

_MEMORY_BOUND: Final = "float32", "float64"
"""Element types whose products memory can bound."""

_PRODUCT_SECONDS: Final = 0.02
"""Time for which the size of a product is chosen."""

_SECONDS: Final = {True: 0.1, False: 0.03}
"""Whether memory can bound the type → time of a measurement."""

_BRIEF_SECONDS: Final = 0.03
"""The same for a brief measurement."""


_Time: TypeAlias = Callable[[int, int, int], float]
"""Measures the seconds of a product of M, N, K."""


class _Line(NamedTuple):
    """Seconds of m rows: call_seconds + (m + startup_rows) row_seconds."""

    row_seconds: float
    startup_rows: float
    call_seconds: float


def measure_cpu(pool: CpuPool, source: str, *, until: float = math.inf) -> CpuModel:
    """The CPU's line for each element type.

    A line is seconds over rows, fitted by least squares.

    Args:
        pool: The threads.
        source: Source that the figures name.
        until: Time (`time.perf_counter`) after which all is measured as briefly as possible.
    """
    assumed = estimate_cpu(pool.threads)
    rates = tuple(_measure_rate(pool, rate, source, until=until) for rate in assumed.rates)
    return CpuModel(pool.threads, rates, share_cpu(pool.threads), _find_cache_bytes(pool))


def measure_tiny_calls(executor: Executor, profile: MachineProfile) -> MachineProfile:
    """The profile with `alone_seconds` of calls as users make them, for types that memory bounds.

    Around the pool's call an executor takes some microseconds, as long as a tiny product.
    """
    cpu = profile.cpu

    def measure(rate: CpuRate) -> CpuRate:
        if rate.dtype not in _MEMORY_BOUND:
            return rate
        m, n, k = _LEAST
        plan = choose_plan(GemmProblem(m, n, k, rate.dtype), profile, PlanOptions(f=m))
        a, b, c = draw_matrices(rate.dtype, m, n, k)

        def run() -> float:
            started = time.perf_counter()
            executor.run(plan, a, b, c)
            return time.perf_counter() - started

        return replace(rate, alone_seconds=repeat_in_pairs(run, _SECONDS[True]))

    return replace(profile, cpu=replace(cpu, rates=tuple(map(measure, cpu.rates))))


def find_uncached_bytes() -> int:
    """Size of a matrix that no cache holds."""
    return max(_LEAST_UNCACHED_BYTES, round(_UNCACHED * find_largest_cache_bytes()))


def _find_cache_bytes(pool: CpuPool) -> int:
    """Size of the caches that the threads' cores have for themselves."""
    return pool.threads * find_core_cache_bytes()


def measure_cpu_briefly(pool: CpuPool) -> CpuModel:
    """A brief measurement of the CPU, of a tenth of a second, in float32.

    Other element types keep their estimated ratios to float32.
    """
    assumed = {rate.dtype: rate for rate in estimate_cpu(pool.threads).rates}
    measured = _measure_rate(pool, assumed["float32"], "", brief=True)
    ratio = measured.gflops / assumed["float32"].gflops
    source = "scaled from a brief measurement of float32 when the engine started"
    rates = tuple(
        replace(
            rate,
            gflops=rate.gflops * ratio,
            startup_rows=measured.startup_rows,
            element_seconds=measured.element_seconds * ITEM_BYTES[rate.dtype] / 4,
            source=source,
        )
        for rate in assumed.values()
    )
    return CpuModel(pool.threads, rates, share_cpu(pool.threads))


def _measure_rate(
    pool: CpuPool, assumed: CpuRate, source: str, *, brief: bool = False, until: float = math.inf
) -> CpuRate:
    """The figures of one element type; what memory bounds only if that matters, and not briefly."""
    is_bound = assumed.dtype in _MEMORY_BOUND and not brief
    budget_seconds = _BRIEF_SECONDS if brief else _SECONDS[is_bound]
    time_product = partial(_time_pool, pool, assumed.dtype, budget_seconds, until)
    side = _choose_side(assumed)
    # Many rows of the other types would take seconds.
    rows = (*_FEW_ROWS, _MANY_ROWS) if is_bound else _FEW_ROWS
    line = _measure_line(time_product, side, rows)
    m, k = _SHALLOW_ROWS, side // _SHALLOWER
    if is_bound and side > _SHALLOW_K:
        m, k = find_uncached_bytes() // ITEM_BYTES[assumed.dtype] // side, _SHALLOW_K
    shallow_seconds = time_product(m, side, k) - line.call_seconds
    shallow_row_seconds = max(0.0, shallow_seconds) / (m + line.startup_rows)
    cost = fit_row_cost(side, (side, line.row_seconds), (k, shallow_row_seconds))
    rate = replace(
        assumed,
        gflops=1e-9 / cost.flop_seconds,
        startup_rows=line.startup_rows,
        call_seconds=line.call_seconds,
        source=source,
        element_seconds=cost.element_seconds,
    )
    if not is_bound:
        return rate
    return _measure_memory(time_product, rate, cost, side, _find_cache_bytes(pool))


def _measure_line(time_product: _Time, side: int, rows: tuple[int, ...]) -> _Line:
    """The line of seconds over rows, from products of few and of many rows.

    The additional cost of the first row has two parts: reading B, which counts in rows, and a fixed
    cost of a call. A short product separates them.
    """
    seconds = [time_product(m, side, side) for m in rows]
    # Relative errors count; otherwise the longest product would decide alone.
    weights = [1 / x for x in seconds]
    slope, intercept = map(float, np.polyfit(rows, seconds, 1, w=weights))
    row_seconds = max(slope, seconds[-1] / rows[-1] / 2)
    most, short_side = _FEW_ROWS[-1], min(_SHORT_SIDE, side // 4)
    short_row_seconds = row_seconds * (short_side / side) ** 2
    short_seconds = time_product(most, short_side, short_side)
    beyond = intercept - (short_seconds - most * short_row_seconds)
    startup_rows = max(0.0, beyond / (row_seconds - short_row_seconds))
    return _Line(row_seconds, startup_rows, max(0.0, intercept - startup_rows * row_seconds))


def _measure_memory(
    time_product: _Time, rate: CpuRate, cost: RowCost, side: int, cache_bytes: int
) -> CpuRate:
    """The rate with what memory bounds: narrow products, single rows, K = 1, one thread."""
    call_seconds = rate.call_seconds
    alone_seconds = time_product(*_LEAST)
    m, n, k = _ALONE
    alone_elements = m * k + k * n + m * n
    rest = find_uncached_bytes() // ITEM_BYTES[rate.dtype] // side
    write_seconds = time_product(rest, side, 1) / (rest * side)
    element_seconds = max(cost.element_seconds, _LEAST_WRITE_SHARE * write_seconds)
    read_seconds = max(0.0, time_product(*_ALONE) - alone_seconds) / alone_elements
    uncached = replace(
        rate,
        element_seconds=min(element_seconds, write_seconds),
        write_seconds=write_seconds,
        vector_seconds=time_product(1, side, rest) / (rest * side),
        copy_columns=_find_copy_columns(cost, time_product(*_TALL) - call_seconds),
        narrow_seconds=max(0.0, time_product(*_NARROW) - call_seconds) / math.prod(_NARROW),
        alone_seconds=alone_seconds,
        alone_gflops=2e-9 * math.prod(_DENSE) / max(1e-9, time_product(*_DENSE) - alone_seconds),
        read_seconds=read_seconds,
    )
    return _measure_cached(time_product, uncached, cost, cache_bytes)


def _measure_cached(time_product: _Time, rate: CpuRate, cost: RowCost, cache_bytes: int) -> CpuRate:
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


def _time_pool(
    pool: CpuPool, dtype: str, budget_seconds: float, until: float, *shape: int
) -> float:
    """Median seconds of a product of M, N, K.

    The minimum would mislead: on a virtual machine with 16 cores, single products took two thirds
    of the time of nearly all others.
    """
    call = partial(pool.multiply, *draw_matrices(dtype, *shape))
    return repeat_in_pairs(call, budget_seconds, until=until)


def _choose_side(assumed: CpuRate) -> int:
    """N and K of the measured products: as large as _PRODUCT_SECONDS allows.

    Small products do not occupy all threads, and the CPU would seem slower than it is.
    """
    flops = assumed.gflops * 1e9 * _PRODUCT_SECONDS
    fitting = [side for side in _SIDES if 2 * _FEW_ROWS[-1] * side * side <= flops]
    return max(fitting, default=_SIDES[0])
