"""Measures the CPU.

    seconds = start + flops / rate + bytes / read rate      a product that all threads share

A product of a single row reads B, one of K = 1 writes C; a short and a long product give start and
rate. One thread alone computes the smallest products. A CPU that was never calibrated is measured
quickly when its profile is first asked for (`open_profiles`).
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from wavetrim.cpu.gemm import CpuPool
from wavetrim.cpu.model import find_largest_cache_bytes
from wavetrim.scheduler.calibration.repetition import OperandMemory, repeat
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.problem import ITEM_BYTES
from wavetrim.scheduler.profile.estimate import estimate_cpu
from wavetrim.scheduler.profile.machine import CpuModel
from wavetrim.scheduler.profile.provider import ProfileProvider

_SECONDS: Final = 0.1
_QUICK_SECONDS: Final = 0.03
"""Time of a measurement, and of a quick one; chosen."""

_LONG_SECONDS: Final = 0.02
_SIDES: Final = 512, 768, 1024, 1536, 2048, 3072, 4096
"""Time that the long product takes by the assumed rate, and sides among which it is chosen;
chosen. Small products do not occupy all threads."""

_SHARED_TERMS: Final = 1 << 22
_LEAST_SHARES: Final = 4
"""Terms M N K of the short product for each thread, so that threads share it, and the fewest
threads that it is made for; chosen."""

_DENSE: Final = 160
_TINY: Final = 16
"""Sides of two products that one thread computes; chosen."""

_SIDE: Final = 8192
_UNCACHED_BYTES: Final = 256 << 20
_UNCACHED: Final = 2
"""Columns of the products that memory bounds; the matrix has at least _UNCACHED_BYTES, and
_UNCACHED times the bytes of the largest cache. Chosen."""

TimeProduct = Callable[[str, int, int, int], float]
"""Measures the seconds of a product: element type, M, N, K."""


def measure_cpu(pool: CpuPool, memory: OperandMemory, source: str) -> CpuModel:
    """All numbers of the CPU but for its copies, which are assumed."""
    time_product = partial(_time_pool, pool, memory, _SECONDS)
    assumed = estimate_cpu(pool.threads)
    uncached_bytes = max(_UNCACHED_BYTES, _UNCACHED * find_largest_cache_bytes())
    rows = uncached_bytes // ITEM_BYTES["float32"] // _SIDE
    read_seconds = _subtract(time_product("float32", 1, _SIDE, rows), assumed.start_seconds)
    write_seconds = _subtract(time_product("float32", rows, _SIDE, 1), assumed.start_seconds)
    cpu = replace(
        assumed,
        read_gbytes_per_second=1e-9 * uncached_bytes / read_seconds,
        write_gbytes_per_second=1e-9 * uncached_bytes / write_seconds,
        source=source,
    )
    cpu = _measure_arithmetic(time_product, cpu)
    dense_seconds, tiny_seconds = (
        time_product("float32", side, side, side) for side in (_DENSE, _TINY)
    )
    thread_gflops = 2e-9 * _DENSE**3 / _subtract(dense_seconds, tiny_seconds)
    return replace(cpu, thread_gflops=thread_gflops)


def measure_cpu_quickly(pool: CpuPool) -> CpuModel:
    """The rates of arithmetic, measured in a fraction of a second. The rest is assumed."""
    assumed = estimate_cpu(pool.threads)
    cpu = _measure_arithmetic(partial(_time_pool, pool, OperandMemory(), _QUICK_SECONDS), assumed)
    return replace(
        cpu,
        thread_gflops=assumed.thread_gflops * cpu.float32_gflops / assumed.float32_gflops,
        start_seconds=assumed.start_seconds,  # found six times too long by so few products
        source=f"a brief measurement of arithmetic at the start; the rest {assumed.source}",
    )


def open_profiles(
    executor: Executor, directory: Path | None, lock: AbstractContextManager[Any]
) -> ProfileProvider:
    """The profiles of an executor's machine; its CPU is measured quickly if never calibrated.

    The lock is held meanwhile.
    """

    def measure() -> CpuModel:
        with lock:
            return measure_cpu_quickly(executor.pool)

    return ProfileProvider(
        directory=directory,
        devices=executor.devices,
        cpu_threads=executor.pool.threads,
        measure_cpu=measure,
    )


def _measure_arithmetic(time_product: TimeProduct, cpu: CpuModel) -> CpuModel:
    """The CPU with its rates of arithmetic, and the time to start all threads."""
    terms = _SHARED_TERMS * max(_LEAST_SHARES, cpu.threads)
    short, long = 16 * round(terms ** (1 / 3) / 16), _choose_side(cpu)
    short_seconds, long_seconds = (
        time_product("float32", side, side, side) - _read(cpu, "float32", side)
        for side in (short, long)
    )
    flops = 2 * (long**3 - short**3)
    flop_seconds = _subtract(long_seconds, short_seconds) / flops
    start_seconds = max(0.0, short_seconds - 2 * short**3 * flop_seconds)
    double_seconds = time_product("float64", long, long, long) - _read(cpu, "float64", long)
    return replace(
        cpu,
        float32_gflops=1e-9 / flop_seconds,
        float64_gflops=2e-9 * long**3 / _subtract(double_seconds, start_seconds),
        start_seconds=start_seconds,
    )


def _subtract(seconds: float, other_seconds: float) -> float:
    """The difference of two measured times, which other work disturbs: at least half the first."""
    return max(seconds - other_seconds, seconds / 2)


def _read(cpu: CpuModel, dtype: str, side: int) -> float:
    """Seconds to read A, B and C."""
    return 1e-9 * 3 * side * side * ITEM_BYTES[dtype] / cpu.read_gbytes_per_second


def _choose_side(cpu: CpuModel) -> int:
    flops = cpu.float32_gflops * 1e9 * _LONG_SECONDS
    return max(side for side in _SIDES if side == _SIDES[0] or 2 * side**3 <= flops)


def _time_pool(
    pool: CpuPool, memory: OperandMemory, budget_seconds: float, dtype: str, *shape: int
) -> float:
    """Median seconds of a product."""
    return repeat(partial(pool.multiply, *memory.take(dtype, *shape)), budget_seconds)
