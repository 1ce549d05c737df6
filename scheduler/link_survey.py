"""Measures the way to the GPU and back, from each kind of host memory."""

import time
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kernels.catalog import find_kernel
from kernels.pinned import pin_matrix
from kernels.pipeline import GpuPipeline
from scheduler.candidates import Candidate
from scheduler.curves import build_gpu_curve
from scheduler.estimate import TOGETHER
from scheduler.machine import LinkModel, MachineProfile
from scheduler.problem import GemmProblem, Memory
from scheduler.repetition import repeat
from scheduler.stream import outline_stream
from scheduler.waves import WaveGrid

LINK_SIDE: Final = 8192

_WAKE_SECONDS: Final = 0.2
_LINK_SECONDS: Final = 0.3
_TINY: Final = 64
_ALL_IN: Final = 16 * LINK_SIDE, 16, LINK_SIDE // 16
"""M, N, K. With a longer K the last kernel would take longer, too."""

_BOTH_WAYS: Final = 8 * LINK_SIDE, LINK_SIDE // 16, LINK_SIDE // 16
"""As much in as out, and little to compute."""

_KERNEL_BOUND: Final = 8192, 4096, 4096


def measure_link(pipeline: GpuPipeline, memory: Memory, *, sm_count: int, source: str) -> LinkModel:
    """Rates of the whole way, staging included where there is any; steps are not told apart yet.

    A tiny product is all fixed cost, a tall one with few columns and a short K all copy in. Of
    page-locked memory, copies go out as fast as they do while others come in. Of staged copies, a
    short K is all copy out, and a tall product with as much to copy in as out tells what both ways
    take together.
    """
    tiny_seconds = _time_pipeline(pipeline, memory, _TINY, _TINY, _TINY)
    side, k = LINK_SIDE, LINK_SIDE // 8
    in_seconds = _time_pipeline(pipeline, memory, *_ALL_IN) - tiny_seconds
    moved_bytes = 4 * side * side
    in_rate = moved_bytes / in_seconds
    together = TOGETHER["pinned"]
    if memory == "pinned":
        both_seconds = _time_pipeline(pipeline, memory, side, side, k) - tiny_seconds
        # Nothing goes out before B and the first rows of A are there.
        first_bytes = 4 * k * (side + _find_first_rows(side, side, k, sm_count))
        out_rate = moved_bytes / (both_seconds - first_bytes / in_rate)
    else:
        out_seconds = _time_pipeline(pipeline, memory, side, side, 16) - tiny_seconds
        out_rate = moved_bytes / out_seconds
        both_seconds = _time_pipeline(pipeline, memory, *_BOTH_WAYS) - tiny_seconds
        m, n, k = _BOTH_WAYS
        apart_seconds = 4 * (m * k + k * n) / in_rate + 4 * m * n / out_rate
        together = max(both_seconds / apart_seconds, TOGETHER["pinned"])
    return LinkModel(
        memory=memory,
        in_gbytes_per_second=in_rate / 1e9,
        out_gbytes_per_second=out_rate / 1e9,
        call_seconds=tiny_seconds,
        source=source,
        together=together,
    )


def measure_step(pipeline: GpuPipeline, profile: MachineProfile) -> float:
    """What a step costs: what a product of many takes beyond its bytes and waves.

    From page-locked memory and bound by its kernels, whose staircase and link are known. One step
    is in the link's cost of a call.
    """
    problem, spec = GemmProblem(*_KERNEL_BOUND, memory="pinned"), find_kernel("cublas", "float32")
    model = profile.find_kernel_model(spec)
    assert model is not None, "every kernel has a staircase, measured or assumed"
    curve = build_gpu_curve(problem, profile, Candidate(spec, model))
    m = problem.m
    seconds = _time_pipeline(pipeline, "pinned", m, problem.n, problem.k)
    step_seconds = (seconds - curve.seconds(m)) / (curve.stream.count_steps(m) - 1)
    return min(max(step_seconds, 0.0), curve.call_seconds)


def _find_first_rows(m: int, n: int, k: int, sm_count: int) -> int:
    """Rows of the first panel."""
    spec = find_kernel("cublas", "float32")
    grid = WaveGrid(n, spec.tile.m, spec.tile.n, sm_count)
    return outline_stream(GemmProblem(m, n, k), grid, splits_tail=spec.splits_tail).first_rows


def prepare_copies(
    pipeline: GpuPipeline, memory: Memory, m: int, n: int, k: int
) -> Callable[[], float]:
    """A product through the pipeline, which returns its wall seconds; the GPU has woken up."""
    spec = find_kernel("cublas", "float32")
    a, b, c = (_make_matrix(memory, *shape) for shape in ((m, k), (k, n), (m, n)))

    def measure() -> float:
        start = time.perf_counter()
        pipeline.multiply(spec, a, b, c)
        return time.perf_counter() - start

    awake = time.perf_counter() + _WAKE_SECONDS
    while time.perf_counter() < awake:
        measure()
    return measure


def _time_pipeline(pipeline: GpuPipeline, memory: Memory, m: int, n: int, k: int) -> float:
    """Median wall seconds of one product through the pipeline."""
    return repeat(prepare_copies(pipeline, memory, m, n, k), _LINK_SECONDS)


def _make_matrix(memory: Memory, rows: int, columns: int) -> NDArray[np.float32]:
    """A matrix whose pages are there."""
    matrix: NDArray[np.float32] = (
        pin_matrix(rows, columns, np.float32)
        if memory == "pinned"
        else np.empty((rows, columns), np.float32)
    )
    matrix.fill(0.5)
    return matrix
