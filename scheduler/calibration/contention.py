"""Measures contention: how much GPU part and CPU part slow each other.

Arithmetic is measured while copies are under way all the time, what memory bounds in real splits.
"""

import statistics
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from wavetrim.cpu.gemm import CpuPool
from wavetrim.scheduler.calibration.links import (
    LINK_SIDE,
    PipelineProfile,
    prepare_copies,
    prepare_run,
)
from wavetrim.scheduler.calibration.operands import OperandMemory
from wavetrim.scheduler.calibration.repetition import repeat, repeat_in_pairs
from wavetrim.scheduler.execution.timings import Timings
from wavetrim.scheduler.model.cpu import CpuRate, CpuShare
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.kernel_choice import choose_plan_on
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.problem import GemmProblem, Memory

_SECONDS: Final = 0.15
_START_SECONDS: Final = 0.2
"""Time of a measurement: of contention, and of the CPU part's start; chosen."""

_GPU_BOUND: Final = (32768, 256, 256), 1024
_CPU_BOUND: Final = (32768, 256, 256), 16384
_MEMORY_BOUND: Final = (16384, 4096, 16), 8704
_WRITTEN: Final = (20480, 4096, 1), 8704
"""M, N, K and F of a split that ends with its GPU part, soon after the CPU part has begun; of one
that ends with its CPU part, with as many steps as most; of one whose parts memory bounds: no cache
holds either part's C, and both take about as long; and of one that only writes C, with the least F
that is written past the caches. Chosen."""

_MOVES: Final = 3
"""How often F is moved; chosen."""

_SIDE: Final = 4096
"""Columns of the CPU part's products; chosen."""

_DEEP: Final = 512, 4096
"""Rows and K of a product that is bound by arithmetic, and takes about as long as a split's;
chosen."""


def measure_shares(
    measured: PipelineProfile, shares: Sequence[CpuShare], rate: CpuRate
) -> tuple[CpuShare, ...]:
    """The ways to share the CPU, each with its measured contention.

    Copies go through the link both ways while the CPU computes one product after another.

    Args:
        measured: The executor.
        shares: Threads and copiers of each way to share.
        rate: The CPU's rate in float32, with all threads.
    """
    alone = {
        memory: repeat(_prepare_copies(measured, memory), _SECONDS, until=measured.until)
        for memory in {share.memory for share in shares}
    }
    return tuple(_measure_share(measured, share, rate, alone[share.memory]) for share in shares)


def _measure_share(
    measured: PipelineProfile, share: CpuShare, rate: CpuRate, copy_seconds: float
) -> CpuShare:
    pool = measured.executor.pool
    copy = _prepare_copies(measured, share.memory, share.copiers)
    m, k = _DEEP
    deep = _prepare_product(pool, (m, _SIDE, k), share.threads, rate.dtype)
    both = _run_both(copy, deep, measured.until)
    row_seconds = (both.compute_seconds - rate.call_seconds) / (m + rate.startup_rows)
    arithmetic_seconds = 2e-9 * k * (_SIDE + rate.copy_columns) / rate.gflops
    alone_seconds = arithmetic_seconds + _SIDE * rate.write_seconds
    part = share.threads / pool.threads
    # Contention makes nothing faster; a ratio below 1 shows the machine's changing speed.
    stretch = max(1.0, row_seconds * part / alone_seconds)
    memory_stretch = _measure_memory_stretch(measured, share)
    write_stretch, write_link_stretch = _measure_writing(measured, share, rate)
    return replace(
        share,
        stretch=stretch,
        link_stretch=max(1.0, both.copy_seconds / copy_seconds),
        memory_stretch=max(stretch, memory_stretch),
        write_stretch=write_stretch,
        write_link_stretch=max(1.0, write_link_stretch),
        start_seconds=_measure_start(measured, share.memory),
        late_seconds=_measure_late(measured, share.memory),
    )


def _measure_memory_stretch(measured: PipelineProfile, share: CpuShare) -> float:
    """Factor on the time of a CPU part that memory bounds, beside its GPU part."""
    shape, f = _MEMORY_BOUND
    _, n, k = shape
    plan = measured.plan(GemmProblem(*shape, memory=share.memory), f=f)
    seconds = _repeat_run(measured, plan, lambda timings: timings.cpu_seconds)
    product = _prepare_product(measured.executor.pool, (f, n, k), plan.share.threads, "float32")
    return seconds / repeat_in_pairs(product, _START_SECONDS, until=measured.until)


def _measure_writing(
    measured: PipelineProfile, share: CpuShare, rate: CpuRate
) -> tuple[float, float]:
    """`write_stretch` and `write_link_stretch`: of a split whose parts only write C.

    F is moved until both parts take about as long, so that each has the other beside it.
    """
    (m, n, k), f = _WRITTEN
    problem = GemmProblem(m, n, k, memory=share.memory)
    for _ in range(_MOVES):
        plan = measured.plan(problem, f=f)
        cpu_seconds, gpu_seconds = (
            _repeat_run(measured, plan, read)
            for read in (lambda timings: timings.cpu_seconds, lambda timings: timings.gpu_seconds)
        )
        written_f, gpu_row_seconds = f, gpu_seconds / (m - f)
        f = round(m * gpu_row_seconds / (gpu_row_seconds + cpu_seconds / f))
        f = min(max(_WRITTEN[1], f), m - 1)
    alone = measured.plan(replace(problem, m=m - written_f), f=0)
    alone_seconds = _repeat_run(measured, alone, lambda timings: timings.gpu_seconds)
    write_seconds = max(cpu_seconds - rate.call_seconds, cpu_seconds / 2) / (written_f * n)
    return write_seconds / rate.write_seconds, gpu_seconds / alone_seconds


def measure_split_stretch(measured: PipelineProfile, gpus: int) -> float | None:
    """Factor on what memory bounds in a split of several GPUs, over what it is beside one.

    It is that of a whole split that only writes C, whose parts wait for the same memory.

    Args:
        measured: An executor with these GPUs, and their profile.
        gpus: Number of GPUs. All of them take part, also if fewer would be faster.

    Returns:
        The factor, at least 1; None if such a split does not pay.
    """
    rows, n, _ = _MEMORY_BOUND[0]
    problem = GemmProblem(gpus * rows, n, 1, memory="pinned")
    options = PlanOptions(kernel="cublas")
    plan = choose_plan_on(problem, measured.profile, options, range(gpus))
    if plan.f == 0 or len(plan.gpu_parts) < gpus:
        return None
    seconds = _repeat_run(measured, plan, lambda timings: timings.total_seconds)
    return max(1.0, seconds / plan.predicted.total_seconds)


def _measure_start(measured: PipelineProfile, memory: Memory) -> float:
    """Seconds that the GPU part takes longer if the CPU part starts with it."""
    shape, f = _GPU_BOUND
    problem = GemmProblem(*shape, memory=memory)
    alone, split = (measured.plan(problem, f=rows) for rows in (0, f))
    spared_seconds = alone.predicted.gpu_seconds - split.predicted.gpu_seconds
    seconds, split_seconds = (
        _repeat_run(measured, plan, lambda timings: timings.total_seconds)
        for plan in (alone, split)
    )
    return max(0.0, split_seconds + spared_seconds - seconds)


def _measure_late(measured: PipelineProfile, memory: Memory) -> float:
    """Seconds by which the CPU part ends later than by its own clock."""
    shape, f = _CPU_BOUND
    plan = measured.plan(GemmProblem(*shape, memory=memory), f=f)
    return _repeat_run(measured, plan, lambda timings: timings.total_seconds - timings.cpu_seconds)


def _repeat_run(measured: PipelineProfile, plan: Plan, read: Callable[[Timings], float]) -> float:
    """Median of a figure of a plan's runs."""
    run = prepare_run(measured, plan)
    return repeat_in_pairs(lambda: read(run()), _START_SECONDS, until=measured.until)


def _prepare_copies(
    measured: PipelineProfile, memory: Memory, copiers: int | None = None
) -> Callable[[], float]:
    """A product bound by its copies, most of them out."""
    return prepare_copies(measured, memory, LINK_SIDE, LINK_SIDE, LINK_SIDE // 8, copiers=copiers)


@dataclass(frozen=True, slots=True)
class _Both:
    """Median times while both run at the same time."""

    copy_seconds: float
    compute_seconds: float


def _run_both(copy: Callable[[], float], compute: Callable[[], float], until: float) -> _Both:
    """Copy repeatedly in this thread while another thread computes."""
    seconds = [compute()]
    copied = threading.Event()

    def compute_on() -> None:
        seconds.clear()
        while not (seconds and copied.is_set()):
            seconds.append(compute())

    with ThreadPoolExecutor(1) as thread:
        computing = thread.submit(compute_on)
        try:
            copy_seconds = repeat(copy, _SECONDS, until=until)
        finally:
            copied.set()
        computing.result()
    return _Both(copy_seconds, statistics.median(seconds))


def _prepare_product(
    pool: CpuPool, shape: tuple[int, int, int], threads: int, dtype: str
) -> Callable[[], float]:
    """A call that computes a product on some threads of the pool and returns its seconds."""
    return partial(pool.multiply, *OperandMemory().draw(dtype, *shape), threads=threads)
