"""Measures what GPU part and CPU part take from each other when they run side by side."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from cpu.gemm import CpuPool
from kernels.pipeline import GpuPipeline
from scheduler.link_survey import LINK_SIDE, prepare_copies
from scheduler.machine import CpuRate
from scheduler.problem import Memory
from scheduler.repetition import repeat
from scheduler.row_cost import fit_row_cost

_SECONDS: Final = 0.3
_SIDE: Final = 4096
_DEEP: Final = 256, 4096
_SHALLOW: Final = 1024, 256
"""Rows and K of products that are bound by arithmetic, and by writing C."""


@dataclass(frozen=True, slots=True)
class Contention:
    """How many times as long the two parts take side by side.

    Attributes:
        link_stretch: The GPU part, where it is bound by its copies.
        cpu_stretch: The CPU part's arithmetic, with the threads that it has beside the GPU,
            compared with its share of all threads' rate.
        element_stretch: The same for what each element of C costs however short K is.
    """

    link_stretch: float
    cpu_stretch: float
    element_stretch: float


def measure_contention(
    pipeline: GpuPipeline, pool: CpuPool, memory: Memory, *, threads: int, rate: CpuRate
) -> Contention:
    """Copies through the link, both ways, while the CPU computes one product after another.

    Args:
        pipeline: The way to the GPU.
        pool: The CPU path.
        memory: Where the operands of the copies lie.
        threads: Threads that the CPU part has beside the GPU.
        rate: The CPU's with all threads, float32.
    """
    copy = prepare_copies(pipeline, memory, LINK_SIDE, LINK_SIDE, LINK_SIDE // 8)
    copy_seconds = repeat(copy, _SECONDS, choose=min)
    link_stretch = 1.0
    rows: list[tuple[int, float]] = []
    for m, k in (_DEEP, _SHALLOW):
        beside = _run_beside(copy, _prepare_product(pool, m, k, threads))
        link_stretch = max(link_stretch, beside.copy_seconds / copy_seconds)
        row_seconds = (beside.compute_seconds - rate.call_seconds) / (m + rate.startup_rows)
        rows.append((k, max(row_seconds, beside.compute_seconds / m / 2)))
    cost = fit_row_cost(_SIDE, *rows)
    share = threads / pool.threads
    return Contention(
        link_stretch=link_stretch,
        cpu_stretch=cost.flop_seconds * rate.gflops * 1e9 * share,
        element_stretch=cost.element_seconds / rate.element_seconds * share,
    )


@dataclass(frozen=True, slots=True)
class _Beside:
    """The best of both, side by side: others who work on the machine are not meant here."""

    copy_seconds: float
    compute_seconds: float


def _run_beside(copy: Callable[[], float], compute: Callable[[], float]) -> _Beside:
    """Copy again and again in this thread while another one computes."""
    seconds = [compute()]
    copied = threading.Event()

    def compute_on() -> None:
        seconds.clear()
        while not (seconds and copied.is_set()):
            seconds.append(compute())

    with ThreadPoolExecutor(1) as thread:
        computing = thread.submit(compute_on)
        try:
            copy_seconds = repeat(copy, _SECONDS, choose=min)
        finally:
            copied.set()
        computing.result()
    return _Beside(copy_seconds, min(seconds))


def _prepare_product(pool: CpuPool, m: int, k: int, threads: int) -> Callable[[], float]:
    """A float32 product on some threads of the pool, which returns its seconds."""
    rng = np.random.default_rng(0)
    a, b = rng.random((m, k), np.float32), rng.random((k, _SIDE), np.float32)
    return partial(pool.multiply, a, b, np.zeros((m, _SIDE), np.float32), threads=threads)
