"""Measures the CPU path: a line of seconds over rows for every element type."""

from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Final

import numpy as np

from wavetrim.cpu.gemm import CpuPool
from wavetrim.scheduler.calibration.repetition import REST_SECONDS, repeat
from wavetrim.scheduler.model.cpu import CpuModel, CpuRate
from wavetrim.scheduler.problem import ITEM_BYTES
from wavetrim.scheduler.profile.estimate import estimate_cpu, share_cpu

_FEW_ROWS: Final = 16, 64, 256
_MANY_ROWS: Final = 2048
_SIDES: Final = (256, 512, 1024, 2048, 4096)
_SHALLOW_ROWS: Final = 1024
_SHALLOWER: Final = 16
_NARROW: Final = 1 << 16, 64, 64
_TALL: Final = 1 << 14, 64, 4096
"""M, N, K of products with few columns; the A of the latter is more than caches hold."""

_MOST_COPY_COLUMNS: Final = 128
_LEAST_WRITE_SHARE: Final = 0.25
"""Of what it takes to write an element of C where there is nothing else to do: what it takes beside
arithmetic at least, which hides most of it until copies for a GPU want the memory, too."""

_UNCACHED_ELEMENTS: Final = 1 << 27
"""Of C in a product with K = 1, and of B in one of a single row: more than caches hold."""

_MEMORY_BOUND: Final = "float32", "float64"
"""Types whose products are so fast that memory can be what they wait for."""

_PRODUCT_SECONDS: Final = 0.02
_SECONDS: Final = {True: 0.1, False: 0.03}
"""For each product, of types that memory can hold up, and of others."""
_BRIEF_SECONDS: Final = 0.03
_DRAWN: Final = 65_521
"""Random elements, over and over: drawing all of them would take longer than multiplying."""

_LEAST_ELEMENT_SECONDS: Final = 1e-12
_LEAST_FLOP_SHARE: Final = 0.5


@dataclass(frozen=True, slots=True)
class RowCost:
    """A row of N elements costs N (2 K flop_seconds + element_seconds).

    Attributes:
        flop_seconds: Of one operation, more than 0.
        element_seconds: Of one element of C however short K is, more than 0.
    """

    flop_seconds: float
    element_seconds: float


def measure_cpu(pool: CpuPool, source: str) -> CpuModel:
    """The CPU's line for every element type: seconds over rows, fitted by least squares."""
    assumed = estimate_cpu(pool.threads)
    rates = tuple(_measure_rate(pool, rate, source) for rate in assumed.rates)
    return CpuModel(pool.threads, rates, share_cpu(pool.threads))


def measure_cpu_briefly(pool: CpuPool) -> CpuModel:
    """The CPU from a tenth of a second of float32, for a machine that was never calibrated.

    The other element types keep the ratio to float32 that the estimate gives them.
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


def _measure_rate(pool: CpuPool, assumed: CpuRate, source: str, *, brief: bool = False) -> CpuRate:
    """One element type's line, from products over few and many rows and smaller ones.

    The time that the first row costs on top is part rows' worth of time, as B must be read, and
    part the same for every product: one of a quarter the side tells them apart. What an element of
    C costs in addition to its arithmetic shows where K is a sixteenth, and at least where K is 1.
    """
    side = _choose_side(assumed)
    budget_seconds = _BRIEF_SECONDS if brief else _SECONDS[assumed.dtype in _MEMORY_BOUND]
    time_product = partial(_time_pool, pool, assumed.dtype, budget_seconds)
    rows = _FEW_ROWS if brief else (*_FEW_ROWS, _MANY_ROWS)
    seconds = [time_product(m, side, side) for m in rows]
    # Each counts by its own share: the longest would else decide alone.
    weights = [1 / x for x in seconds]
    slope, intercept = map(float, np.polyfit(rows, seconds, 1, w=weights))
    row_seconds = max(slope, seconds[-1] / rows[-1] / 2)
    small_row_seconds = row_seconds / 16
    most = _FEW_ROWS[-1]
    small_seconds = time_product(most, side // 4, side // 4)
    beyond = intercept - (small_seconds - most * small_row_seconds)
    startup_rows = max(0.0, beyond / (row_seconds - small_row_seconds))
    call_seconds = max(0.0, intercept - startup_rows * row_seconds)
    m, k = _SHALLOW_ROWS, side // _SHALLOWER
    shallow_seconds = max(0.0, time_product(m, side, k) - call_seconds) / (m + startup_rows)
    cost = fit_row_cost(side, (side, row_seconds), (k, shallow_seconds))
    outer_seconds = vector_seconds = narrow_seconds = 0.0
    copy_columns = assumed.copy_columns
    if not brief and assumed.dtype in _MEMORY_BOUND:
        rest = _UNCACHED_ELEMENTS // side
        outer_seconds, vector_seconds = time_product(rest, side, 1), time_product(1, side, rest)
        copy_columns = _find_copy_columns(cost, time_product(*_TALL) - call_seconds)
        narrow_seconds = max(0.0, time_product(*_NARROW) - call_seconds) / prod(_NARROW)
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
    )


def _find_copy_columns(cost: RowCost, seconds: float) -> float:
    """What a product of few columns takes beyond its arithmetic and writing, in columns of it."""
    m, n, k = _TALL
    arithmetic_seconds = seconds / m - n * cost.element_seconds
    copy_columns = arithmetic_seconds / (2 * k * cost.flop_seconds) - n
    return min(max(0.0, copy_columns), _MOST_COPY_COLUMNS)


def _time_pool(pool: CpuPool, dtype: str, budget_seconds: float, *shape: int) -> float:
    """Median seconds of a product of M, N, K that finds the threads asleep, as most do.

    What is best of several is no measure: on a virtual machine with 16 cores single products took
    two thirds of what nearly all others did.
    """
    m, n, k = shape
    drawn = (np.random.default_rng(0).random(_DRAWN) * 100).astype(dtype)
    a, b = (np.resize(drawn, size) for size in ((m, k), (k, n)))
    c = np.zeros((m, n), dtype)
    return repeat(partial(pool.multiply, a, b, c), budget_seconds, rest_seconds=REST_SECONDS)


def _choose_side(assumed: CpuRate) -> int:
    """N and K of the measured products: as large as the time set aside for one allows.

    Small products do not fill the pool, and would make the CPU look slower than it is.
    """
    flops = assumed.gflops * 1e9 * _PRODUCT_SECONDS
    fitting = [side for side in _SIDES if 2 * _FEW_ROWS[-1] * side * side <= flops]
    return max(fitting, default=_SIDES[0])


def fit_row_cost(n: int, deep: tuple[int, float], shallow: tuple[int, float]) -> RowCost:
    """Both costs from the seconds of a row at two K.

    What two measurements leave open by their noise stays within bounds: an element costs nothing
    or more by itself, and the arithmetic at least half of the row at the larger K.

    Args:
        n: Columns of C.
        deep: The larger K, and the seconds of a row there.
        shallow: The smaller one, likewise.
    """
    (deep_k, deep_seconds), (shallow_k, shallow_seconds) = deep, shallow
    most = deep_seconds / (2 * n * deep_k)
    flop_seconds = (deep_seconds - shallow_seconds) / (2 * n * (deep_k - shallow_k))
    flop_seconds = min(max(flop_seconds, _LEAST_FLOP_SHARE * most), most)
    element_seconds = shallow_seconds / n - 2 * shallow_k * flop_seconds
    return RowCost(flop_seconds, max(element_seconds, _LEAST_ELEMENT_SECONDS))
