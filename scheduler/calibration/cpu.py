"""Measures the CPU: a line of seconds over rows for each element type."""

import math
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from wavetrim.cpu.gemm import CpuPool
from wavetrim.cpu.products import Matrix
from wavetrim.scheduler.calibration.repetition import LONG_REST_SECONDS, REST_SECONDS, repeat
from wavetrim.scheduler.model.cpu import CpuModel, CpuRate
from wavetrim.scheduler.problem import ITEM_BYTES
from wavetrim.scheduler.profile.estimate import estimate_cpu, share_cpu

_FEW_ROWS: Final = 16, 64, 256
_MANY_ROWS: Final = 2048
_SIDES: Final = (256, 512, 1024, 2048, 4096)
_SHORT_SIDE: Final = 256
"""N and K of a short product that all threads share; chosen. A call is most of its time."""

_SHALLOW_ROWS: Final = 1024
_SHALLOWER: Final = 16
_NARROW: Final = 1 << 16, 64, 64
_TALL: Final = 1 << 14, 64, 4096
"""M, N, K of products with few columns; A of the second exceeds the caches."""

_LEAST: Final = 16, 16, 16
_ALONE: Final = 2, 1024, 160
"""M, N, K of products that one thread computes: of nearly no time, and of the time to read B."""

_OTHER_BYTES: Final = 8 << 20
"""Memory that other work uses before a small product: more than a core's own caches hold."""

_MOST_COPY_COLUMNS: Final = 128
_LEAST_WRITE_SHARE: Final = 0.25
"""Least cost of an element of C besides arithmetic, as a share of the time to write it. Arithmetic
hides most of that time, until a GPU's copies use the memory, too."""

_UNCACHED_ELEMENTS: Final = 1 << 26
"""Elements of C with K = 1, and of B with a single row: more than caches hold."""

_MEMORY_BOUND: Final = "float32", "float64"
"""Element types whose products memory can bound."""

_PRODUCT_SECONDS: Final = 0.02
"""Time of one product, for the choice of its size."""

_SECONDS: Final = {True: 0.1, False: 0.03}
"""Time of a measurement: whether memory can bound the type → seconds."""

_BRIEF_SECONDS: Final = 0.03
"""The same for a brief measurement."""

_SMALL_SECONDS: Final = 0.1
"""The same for a product that one thread computes."""

_WAKING: Final = 1, 8192, 8192
_WAKE_SECONDS: Final = 0.3
"""M, N, K of a product of all threads that takes longer than cores do to wake up, and the time for
its measurement; chosen."""

_DRAWN: Final = 65_521
"""Random elements, which repeat: drawing more would take longer than multiplying."""

_LEAST_ELEMENT_SECONDS: Final = 1e-12
_LEAST_FLOP_SHARE: Final = 0.5
"""Bounds on fitted costs, for noisy measurements."""


@dataclass(frozen=True, slots=True)
class RowCost:
    """A row of N elements costs N (2 K flop_seconds + element_seconds).

    Attributes:
        flop_seconds: Seconds of an operation, more than 0.
        element_seconds: Seconds of an element of C for any K, more than 0.
    """

    flop_seconds: float
    element_seconds: float


def measure_cpu(pool: CpuPool, source: str, *, until: float = math.inf) -> CpuModel:
    """The CPU's line for each element type: seconds over rows, fitted by least squares.

    And how long its cores take to wake up.

    Args:
        pool: The threads.
        source: Source that the figures name.
        until: Time (`time.perf_counter`) after which everything is measured as briefly as can be.
    """
    assumed = estimate_cpu(pool.threads)
    rates = tuple(_measure_rate(pool, rate, source, until=until) for rate in assumed.rates)
    wake_seconds = _measure_wake(pool, until)
    return CpuModel(pool.threads, rates, share_cpu(pool.threads), wake_seconds)


def _measure_wake(pool: CpuPool, until: float) -> float:
    """Seconds that a product of all threads takes longer when the cores have slept, too."""
    call = partial(pool.multiply, *_draw("float32", *_WAKING))
    after_long, after_short = (
        repeat(call, _WAKE_SECONDS, rest_seconds=rest, until=until)
        for rest in (LONG_REST_SECONDS, REST_SECONDS)
    )
    return max(0.0, after_long - after_short)


def measure_cpu_briefly(pool: CpuPool) -> CpuModel:
    """A brief measurement of the CPU, for a machine that was never calibrated.

    It takes a tenth of a second, for float32 only. Other element types keep their estimated ratios
    to float32.
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
    """The line of one element type, from products of few and of many rows.

    The additional cost of the first row has two parts: reading B, which counts in rows, and a fixed
    cost of a call. A short product separates them. A product with a sixteenth of K gives the cost
    of an element of C, one with K = 1 its least cost.
    """
    side = _choose_side(assumed)
    budget_seconds = _BRIEF_SECONDS if brief else _SECONDS[assumed.dtype in _MEMORY_BOUND]
    time_product = partial(_time_pool, pool, assumed.dtype, budget_seconds, until)
    time_small = partial(_time_small, pool, assumed.dtype, until)
    is_bound = assumed.dtype in _MEMORY_BOUND  # others are slow, and many rows would take seconds
    rows = (*_FEW_ROWS, _MANY_ROWS) if is_bound and not brief else _FEW_ROWS
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
    call_seconds = max(0.0, intercept - startup_rows * row_seconds)
    m, k = _SHALLOW_ROWS, side // _SHALLOWER
    shallow_seconds = max(0.0, time_product(m, side, k) - call_seconds) / (m + startup_rows)
    cost = fit_row_cost(side, (side, row_seconds), (k, shallow_seconds))
    outer_seconds = vector_seconds = narrow_seconds = 0.0
    copy_columns = assumed.copy_columns
    alone_seconds, read_seconds = assumed.alone_seconds, assumed.read_seconds
    if is_bound and not brief:
        alone_seconds = time_small(*_LEAST)
        m, n, k = _ALONE
        alone_elements = m * k + k * n + m * n
        small_seconds = time_small(*_ALONE)
        read_seconds = max(0.0, small_seconds - alone_seconds) / alone_elements
        rest = _UNCACHED_ELEMENTS // side
        outer_seconds, vector_seconds = time_product(rest, side, 1), time_product(1, side, rest)
        copy_columns = _find_copy_columns(cost, time_product(*_TALL) - call_seconds)
        narrow_seconds = max(0.0, time_product(*_NARROW) - call_seconds) / math.prod(_NARROW)
    write_seconds = outer_seconds / _UNCACHED_ELEMENTS
    return replace(
        assumed,
        gflops=1e-9 / cost.flop_seconds,
        startup_rows=startup_rows,
        call_seconds=call_seconds,
        source=source,
        element_seconds=max(cost.element_seconds, _LEAST_WRITE_SHARE * write_seconds),
        write_seconds=write_seconds,
        vector_seconds=vector_seconds / _UNCACHED_ELEMENTS,
        copy_columns=copy_columns,
        narrow_seconds=narrow_seconds,
        alone_seconds=alone_seconds,
        read_seconds=read_seconds,
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
    """Median seconds of a product of M, N, K that begins while the threads sleep.

    The minimum would mislead: on a virtual machine with 16 cores single products took two thirds
    of the time of nearly all others.
    """
    call = partial(pool.multiply, *_draw(dtype, *shape))
    return repeat(call, budget_seconds, rest_seconds=REST_SECONDS, until=until)


def _time_small(pool: CpuPool, dtype: str, until: float, *shape: int) -> float:
    """Median seconds of a product that one thread computes, after other work of the process.

    The call counts as well, which finds neither its code nor the operands in the core's caches.
    """
    other = np.zeros(_OTHER_BYTES // 8)
    operands = _draw(dtype, *shape)

    def measure() -> float:
        np.add(other, 1, out=other)
        started = time.perf_counter()
        pool.multiply(*operands)
        return time.perf_counter() - started

    return repeat(measure, _SMALL_SECONDS, rest_seconds=REST_SECONDS, until=until)


def _draw(dtype: str, m: int, n: int, k: int) -> tuple[Matrix, Matrix, Matrix]:
    drawn = (np.random.default_rng(0).random(_DRAWN) * 100).astype(dtype)
    return np.resize(drawn, (m, k)), np.resize(drawn, (k, n)), np.zeros((m, n), dtype)


def _choose_side(assumed: CpuRate) -> int:
    """N and K of the measured products: as large as _PRODUCT_SECONDS allows.

    Small products do not occupy all threads, and the CPU would seem slower than it is.
    """
    flops = assumed.gflops * 1e9 * _PRODUCT_SECONDS
    fitting = [side for side in _SIDES if 2 * _FEW_ROWS[-1] * side * side <= flops]
    return max(fitting, default=_SIDES[0])


def fit_row_cost(n: int, deep: tuple[int, float], shallow: tuple[int, float]) -> RowCost:
    """Both costs of a row, from its seconds at two K.

    They are bounded because measurements are noisy: an element costs more than nothing, and
    arithmetic is at least half of a row at the larger K.

    Args:
        n: Columns of C.
        deep: The larger K, and the seconds of a row with it.
        shallow: The smaller K, likewise.
    """
    (deep_k, deep_seconds), (shallow_k, shallow_seconds) = deep, shallow
    most = deep_seconds / (2 * n * deep_k)
    flop_seconds = (deep_seconds - shallow_seconds) / (2 * n * (deep_k - shallow_k))
    flop_seconds = min(max(flop_seconds, _LEAST_FLOP_SHARE * most), most)
    element_seconds = shallow_seconds / n - 2 * shallow_k * flop_seconds
    return RowCost(flop_seconds, max(element_seconds, _LEAST_ELEMENT_SECONDS))
