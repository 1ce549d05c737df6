"""Measures the way to the GPU and back: its rates, and what the CPU part does to them."""

import statistics
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from cpu.gemm import CpuPool
from kernels.catalog import find_kernel
from kernels.pipeline import GpuPipeline
from scheduler.machine import LinkModel
from scheduler.repetition import repeat

_LINK_SIDE: Final = 8192
_WAKE_SECONDS: Final = 0.2
_LINK_SECONDS: Final = 0.3
_CPU_ROWS: Final = 256
_CPU_SIDE: Final = 4096


def measure_link(pipeline: GpuPipeline, source: str) -> LinkModel:
    """Rates of the whole way, pageable memory through staging to the GPU and back.

    A product with few columns is all copy in, one with a small K all copy out, a tiny one all
    fixed cost. One that copies both ways with a kernel beside tells how much longer the copies
    take together than one after the other; the rates are those of that usual case.
    """
    call_seconds = _time_pipeline(pipeline, 64, 64, 64)
    side, k = _LINK_SIDE, _LINK_SIDE // 8
    in_seconds = _time_pipeline(pipeline, side, 64, side) - call_seconds
    out_seconds = _time_pipeline(pipeline, side, side, 16) - call_seconds
    both_seconds = _time_pipeline(pipeline, side, side, k) - call_seconds
    moved_bytes = 4 * side * side
    alone_seconds = in_seconds * 2 * k / side + out_seconds
    stretch = max(1.0, both_seconds / alone_seconds)
    return LinkModel(
        in_gbytes_per_second=moved_bytes / in_seconds / stretch / 1e9,
        out_gbytes_per_second=moved_bytes / out_seconds / stretch / 1e9,
        call_seconds=call_seconds,
        source=source,
    )


@dataclass(frozen=True, slots=True)
class Contention:
    """How many times as long the two parts take side by side.

    Attributes:
        link_stretch: The GPU part, where it is bound by its copies.
        cpu_stretch: The CPU part, with the threads that it has beside the GPU.
    """

    link_stretch: float
    cpu_stretch: float


def measure_contention(pipeline: GpuPipeline, pool: CpuPool) -> Contention:
    """Copies through the link, both ways, while the CPU computes one product after another."""
    copy = _prepare_copies(pipeline, _LINK_SIDE, _LINK_SIDE, _LINK_SIDE // 8)
    rng = np.random.default_rng(0)
    a, b = (rng.random((rows, _CPU_SIDE), np.float32) for rows in (_CPU_ROWS, _CPU_SIDE))
    compute = partial(pool.multiply, a, b, np.empty_like(a))
    copy_seconds, compute_seconds = repeat(copy, _LINK_SECONDS), repeat(compute, _LINK_SECONDS)
    beside: list[float] = []
    copied = threading.Event()

    def compute_on() -> None:
        while not copied.is_set():
            beside.append(compute())

    with ThreadPoolExecutor(1) as thread:
        computing = thread.submit(compute_on)
        try:
            copy_seconds_beside = repeat(copy, _LINK_SECONDS)
        finally:
            copied.set()
        computing.result()
    return Contention(
        link_stretch=max(1.0, copy_seconds_beside / copy_seconds),
        cpu_stretch=max(1.0, statistics.median(beside) / compute_seconds),
    )


def _time_pipeline(pipeline: GpuPipeline, m: int, n: int, k: int) -> float:
    """Median wall seconds of one product through the pipeline."""
    return repeat(_prepare_copies(pipeline, m, n, k), _LINK_SECONDS)


def _prepare_copies(pipeline: GpuPipeline, m: int, n: int, k: int) -> Callable[[], float]:
    """A product through the pipeline, which returns its wall seconds; the GPU has woken up."""
    spec = find_kernel("cublas", "float32")
    rng = np.random.default_rng(0)
    a, b = rng.random((m, k), np.float32), rng.random((k, n), np.float32)
    c = np.zeros((m, n), np.float32)

    def measure() -> float:
        start = time.perf_counter()
        pipeline.multiply(spec, a, b, c)
        return time.perf_counter() - start

    awake = time.perf_counter() + _WAKE_SECONDS
    while time.perf_counter() < awake:
        measure()
    return measure
