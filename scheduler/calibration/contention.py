"""Measures what GPU part and CPU part take from each other when they run side by side."""

import statistics
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from wavetrim.cpu.gemm import CpuPool
from wavetrim.kernels.catalog import find_kernel
from wavetrim.scheduler.calibration.links import LINK_SIDE, Way, prepare_copies
from wavetrim.scheduler.calibration.repetition import repeat
from wavetrim.scheduler.calibration.row_cost import fit_row_cost
from wavetrim.scheduler.model.cpu import DEEP_K, SHALLOW_K, CpuRate, CpuShare
from wavetrim.scheduler.problem import Memory

_SECONDS: Final = 0.2
_MOST_STRETCH: Final = 4.0
_LEAST_SHALLOW_STRETCH: Final = 2.0
"""What is measured with a C that stays in the caches is less than what a large C takes from staged
copies."""

_START_SECONDS: Final = 0.1
_BRIEF: Final = 32768, 256, 256
"""A product whose GPU part takes about as long as the CPU part needs to get going."""

_SIDE: Final = 4096
_DEEP: Final = 1024, DEEP_K
_SHALLOW: Final = 1024, SHALLOW_K
"""Rows and K of products that are bound by arithmetic, and by writing C."""


def measure_shares(
    way: Way, pool: CpuPool, shares: Sequence[CpuShare], rates: Sequence[CpuRate]
) -> tuple[CpuShare, ...]:
    """The ways to share the CPU, each with what GPU part and CPU part then take from each other.

    Copies go through the link, both ways, while the CPU computes one product after another.

    Args:
        way: The way to the GPU.
        pool: The CPU path.
        shares: Threads and copiers of each way.
        rates: The CPU's with all threads, float32's and float64's.
    """
    alone = {
        memory: repeat(_prepare_copies(way, memory), _SECONDS)
        for memory in {share.memory for share in shares}
    }
    return tuple(_measure_share(way, pool, share, rates, alone[share.memory]) for share in shares)


def _measure_share(
    way: Way,
    pool: CpuPool,
    share: CpuShare,
    rates: Sequence[CpuRate],
    copy_seconds: float,
) -> CpuShare:
    copy = _prepare_copies(way, share.memory, share.copiers)
    least_stretch = _LEAST_SHALLOW_STRETCH if share.memory == "pageable" else 1.0
    link_stretches = {DEEP_K: 1.0, SHALLOW_K: least_stretch}
    costs = {}
    for rate in rates:
        rows: list[tuple[int, float]] = []
        for m, k in (_DEEP, _SHALLOW):
            compute = _prepare_product(pool, m, k, share.threads, rate.dtype)
            beside = _run_beside(copy, compute)
            link_stretches[k] = max(link_stretches[k], beside.copy_seconds / copy_seconds)
            row_seconds = (beside.compute_seconds - rate.call_seconds) / (m + rate.startup_rows)
            rows.append((k, max(row_seconds, beside.compute_seconds / m / 2)))
        costs[rate] = fit_row_cost(_SIDE, *rows)
    part = share.threads / pool.threads
    element_stretch = costs[rates[0]].element_seconds / rates[0].element_seconds * part
    # Beside copies nothing is faster: what seems so is the machine's changing speed.
    stretch, wide_stretch = (
        max(1.0, cost.flop_seconds * rate.gflops * 1e9 * part) for rate, cost in costs.items()
    )
    return replace(
        share,
        stretch=stretch,
        wide_stretch=wide_stretch,
        # Little beside the arithmetic, the elements' cost is told from it with large errors.
        element_stretch=min(max(element_stretch, 1 / _MOST_STRETCH), _MOST_STRETCH),
        link_stretch=link_stretches[DEEP_K],
        shallow_link_stretch=link_stretches[SHALLOW_K],
        start_seconds=_measure_start(way, pool, share),
    )


def _measure_start(way: Way, pool: CpuPool, share: CpuShare) -> float:
    """What the GPU part takes longer when the CPU part starts with it."""
    spec = find_kernel("register", "float32")
    begun = threading.Event()
    copy = prepare_copies(
        *(way, share.memory, *_BRIEF), spec=spec, copiers=share.copiers, begun=begun.set
    )
    compute = _prepare_product(pool, *_SHALLOW, share.threads, "float32")
    with ThreadPoolExecutor(1) as thread:

        def run_both() -> float:
            begun.clear()
            copying = thread.submit(copy)
            copying.add_done_callback(lambda _: begun.set())  # if it failed before
            begun.wait()
            compute()
            return copying.result()

        beside = repeat(run_both, _START_SECONDS)
    return max(0.0, beside - repeat(copy, _START_SECONDS))


def _prepare_copies(way: Way, memory: Memory, copiers: int | None = None) -> Callable[[], float]:
    """A product that takes as long as its copies, most of them out."""
    return prepare_copies(way, memory, LINK_SIDE, LINK_SIDE, LINK_SIDE // 8, copiers=copiers)


@dataclass(frozen=True, slots=True)
class _Beside:
    """Medians of both, side by side."""

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
            copy_seconds = repeat(copy, _SECONDS)
        finally:
            copied.set()
        computing.result()
    return _Beside(copy_seconds, statistics.median(seconds))


def _prepare_product(
    pool: CpuPool, m: int, k: int, threads: int, dtype: str
) -> Callable[[], float]:
    """A product on some threads of the pool, which returns its seconds."""
    rng = np.random.default_rng(0)
    a, b = (rng.random(shape, np.float32).astype(dtype) for shape in ((m, k), (k, _SIDE)))
    return partial(pool.multiply, a, b, np.zeros((m, _SIDE), dtype), threads=threads)
