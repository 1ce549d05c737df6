"""Measures the CPU: a line of seconds over rows for each element type."""

import math
import time
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from wavetrim.cpu.gemm import CpuPool
from wavetrim.scheduler.calibration.cpu_memory import (
    LEAST,
    MEMORY_BOUND,
    TimeProduct,
    find_cache_bytes,
    find_uncached_bytes,
    measure_memory,
)
from wavetrim.scheduler.calibration.operands import OperandMemory
from wavetrim.scheduler.calibration.repetition import repeat_in_pairs
from wavetrim.scheduler.calibration.row_cost import fit_row_cost
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
"""Rows of the products that give the line, and sides of which one is taken as N and K; chosen."""

_SHORT_SIDE: Final = 256
"""N and K of a short product that all threads share; chosen. A call is most of its time."""

_SHALLOW_ROWS: Final = 1024
_SHALLOWER: Final = 16
_SHALLOW_K: Final = 64
"""Rows of a product of smaller K, and the divisor of K; for types whose products memory can bound,
its K, with a C that no cache holds. Chosen."""

_PRODUCT_SECONDS: Final = 0.02
"""Time that the largest product may take; chosen."""

_SECONDS: Final = {True: 0.1, False: 0.03}
"""Whether memory can bound the type → time of a measurement; chosen."""

_BRIEF_SECONDS: Final = 0.03
"""The same for a brief measurement; chosen."""


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
    memory, rates = OperandMemory(), dict[str, CpuRate]()
    for rate in assumed.rates:
        # Unsigned integers, which come later, take as long as signed ones.
        signed = rates.get(rate.dtype.removeprefix("u"))
        if signed is None:
            signed = _measure_rate(pool, memory, rate, source, until=until)
        rates[rate.dtype] = replace(signed, dtype=rate.dtype)
    cache_bytes = find_cache_bytes(pool.threads)
    return CpuModel(pool.threads, tuple(rates.values()), share_cpu(pool.threads), cache_bytes)


def measure_tiny_calls(executor: Executor, profile: MachineProfile) -> MachineProfile:
    """The profile with `alone_seconds` of calls as users make them, for types that memory bounds.

    Around the pool's call an executor takes some microseconds, as long as a tiny product.
    """
    cpu = profile.cpu

    def measure(rate: CpuRate) -> CpuRate:
        if rate.dtype not in MEMORY_BOUND:
            return rate
        m, n, k = LEAST
        plan = choose_plan(GemmProblem(m, n, k, rate.dtype), profile, PlanOptions(f=m))
        a, b, c = OperandMemory().draw(rate.dtype, m, n, k)

        def run() -> float:
            started = time.perf_counter()
            executor.run(plan, a, b, c)
            return time.perf_counter() - started

        return replace(rate, alone_seconds=repeat_in_pairs(run, _SECONDS[True]))

    return replace(profile, cpu=replace(cpu, rates=tuple(map(measure, cpu.rates))))


def measure_cpu_briefly(pool: CpuPool) -> CpuModel:
    """A brief measurement of the CPU in float32: a quarter of a second with two cores.

    Other element types keep their estimated ratios to float32.
    """
    assumed = {rate.dtype: rate for rate in estimate_cpu(pool.threads).rates}
    measured = _measure_rate(pool, OperandMemory(), assumed["float32"], "", brief=True)
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
    pool: CpuPool,
    memory: OperandMemory,
    assumed: CpuRate,
    source: str,
    *,
    brief: bool = False,
    until: float = math.inf,
) -> CpuRate:
    """The figures of one element type; what memory bounds only if that matters, and not briefly."""
    is_bound = assumed.dtype in MEMORY_BOUND and not brief
    budget_seconds = _BRIEF_SECONDS if brief else _SECONDS[is_bound]
    time_product = partial(_time_pool, pool, memory, assumed.dtype, budget_seconds, until)
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
    return measure_memory(time_product, rate, cost, side, find_cache_bytes(pool.threads))


def _measure_line(time_product: TimeProduct, side: int, rows: tuple[int, ...]) -> _Line:
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


def _time_pool(
    pool: CpuPool,
    memory: OperandMemory,
    dtype: str,
    budget_seconds: float,
    until: float,
    *shape: int,
) -> float:
    """Median seconds of a product of M, N, K.

    The minimum would mislead: on a virtual machine with 16 cores, single products took two thirds
    of the time of nearly all others.
    """
    call = partial(pool.multiply, *memory.draw(dtype, *shape))
    return repeat_in_pairs(call, budget_seconds, until=until)


def _choose_side(assumed: CpuRate) -> int:
    """N and K of the measured products: as large as _PRODUCT_SECONDS allows.

    Small products do not occupy all threads, and the CPU would seem slower than it is.
    """
    flops = assumed.gflops * 1e9 * _PRODUCT_SECONDS
    fitting = [side for side in _SIDES if 2 * _FEW_ROWS[-1] * side * side <= flops]
    return max(fitting, default=_SIDES[0])
