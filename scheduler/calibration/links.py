"""Measures the way to the GPU and back, from each kind of host memory."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wavetrim.kernels.catalog import KernelSpec, find_kernel
from wavetrim.kernels.pipeline.cuts import plan_steps
from wavetrim.kernels.pipeline.pipeline import GpuPipeline
from wavetrim.kernels.pipeline.steps import Cut
from wavetrim.kernels.timing.links import measure_transfers
from wavetrim.kernels.transfer.pinned import pin_matrix
from wavetrim.scheduler.calibration.repetition import REST_SECONDS, repeat
from wavetrim.scheduler.model.curves import build_gpu_curve
from wavetrim.scheduler.model.gpu_curve import GpuCurve
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.plan import choose_plan
from wavetrim.scheduler.problem import GemmProblem, Memory
from wavetrim.scheduler.profile.estimate import COPY_SECONDS
from wavetrim.scheduler.profile.machine import LinkModel, MachineProfile

LINK_SIDE: Final = 8192
_SIDES: Final = LINK_SIDE // 2, LINK_SIDE
"""What a product takes longer than one that caches hold does not tell its rate: by sides of 8192
and 12288 copies both ways at once seemed slower than one after the other (H200)."""

_LEAST_TOGETHER: Final = 0.5
_PROBED_BYTES: Final = 128 << 20
_PROBE_RUNS: Final = 5
_WAKE_SECONDS: Final = 0.1
_LINK_SECONDS: Final = 0.2
_FILL_SECONDS: Final = 0.15

_TINY: Final = 64
_KERNEL_BOUND: Final = 8192, 4096, 4096
_MIDDLING: Final = (
    GemmProblem(256, 4096, 4096),
    GemmProblem(2048, 2048, 2048),
    GemmProblem(32768, 256, 256),
    GemmProblem(65536, 256, 256),
    GemmProblem(65536, 256, 256, "float64"),
)
"""What is bound by its copies, in or both ways, and not large."""


@dataclass(frozen=True, slots=True)
class Way:
    """The way to the GPU while it is measured.

    Attributes:
        pipeline: What goes it.
        profile: Estimates, or what is measured so far: products are cut by it.
    """

    pipeline: GpuPipeline
    profile: MachineProfile

    def find_cut(self, spec: KernelSpec, problem: GemmProblem) -> Cut:
        """How a product is cut, as far as the machine is known."""
        return self.build_curve(spec, problem).find_cut(problem.m)

    def build_curve(self, spec: KernelSpec, problem: GemmProblem) -> GpuCurve:
        """Seconds over rows, as far as the machine is known."""
        model = self.profile.find_kernel_model(spec)
        assert model is not None, "every kernel has a staircase, measured or assumed"
        return build_gpu_curve(problem, self.profile, spec, model)


@dataclass(frozen=True, slots=True)
class _Rates:
    """Bytes a second each way, and what both take at once as a share of one after the other."""

    inwards: float
    outwards: float
    together: float


def measure_link(way: Way, memory: Memory, *, device_index: int, source: str) -> LinkModel:
    """The whole way, staging included where there is any; steps are not told apart yet.

    A tiny product is all fixed cost.

    Args:
        way: The way to the GPU.
        memory: Where the operands lie.
        device_index: The GPU.
        source: What the figures are to name as their source.
    """
    rates = _probe_rates(device_index) if memory == "pinned" else _measure_staged_rates(way)
    return LinkModel(
        memory=memory,
        in_gbytes_per_second=rates.inwards / 1e9,
        out_gbytes_per_second=rates.outwards / 1e9,
        call_seconds=_time_pipeline(way, memory, _TINY, _TINY, _TINY),
        source=source,
        copy_seconds=COPY_SECONDS[memory],
        together=rates.together,
    )


def _probe_rates(device_index: int) -> _Rates:
    """Page-locked memory goes as it is, so the probe of transfers tells all."""
    readings = measure_transfers(device_index, (_PROBED_BYTES,), _PROBE_RUNS)
    seconds = {
        reading.direction: statistics.median(reading.run_seconds)
        for reading in readings
        if reading.way == "pinned"
    }
    together = seconds["both"] / (seconds["in"] + seconds["out"])
    return _Rates(
        _PROBED_BYTES / seconds["in"],
        _PROBED_BYTES / seconds["out"],
        max(together, _LEAST_TOGETHER),
    )


def _measure_staged_rates(way: Way) -> _Rates:
    """Rates are what a larger product takes longer than a smaller one.

    A tall one with few columns and a short K is all copy in, one with a very short K all copy out,
    and another has as much to copy in as out.
    """

    def time_more(shape: Callable[[int], tuple[int, int, int]]) -> float:
        less, more = (_time_pipeline(way, "pageable", *shape(side)) for side in _SIDES)
        return more - less

    less, more = (side * side * 4 for side in _SIDES)
    moved_bytes = more - less
    in_rate, out_rate = moved_bytes / time_more(_shape_in), moved_bytes / time_more(_shape_out)
    apart_seconds = moved_bytes / in_rate / 2 + moved_bytes / out_rate / 2
    together = time_more(_shape_both) / apart_seconds
    return _Rates(in_rate, out_rate, min(max(together, _LEAST_TOGETHER), 1.0))


def _shape_in(side: int) -> tuple[int, int, int]:
    """M, N, K. With a longer K the last kernel would take longer, too."""
    return 16 * side, 16, side // 16


def _shape_out(side: int) -> tuple[int, int, int]:
    return side, side, 16


def _shape_both(side: int) -> tuple[int, int, int]:
    """Half as much each way, and little to compute."""
    return 8 * side, side // 16, side // 16


def measure_step(way: Way) -> float:
    """What enqueueing a step costs: what a product of many takes beyond its schedule.

    From page-locked memory and bound by its kernels, whose staircase and link are known. One step
    is in the link's cost of a call.
    """
    problem, spec = GemmProblem(*_KERNEL_BOUND, memory="pinned"), find_kernel("cublas", "float32")
    curve = way.build_curve(spec, problem)
    steps = len(plan_steps(curve.problem, curve.rates, curve.memory_bytes).steps)
    seconds = _time_pipeline(way, "pinned", problem.m, problem.n, problem.k)
    step_seconds = (seconds - curve.seconds(problem.m)) / max(1, steps - 1)
    return min(max(step_seconds, 0.0), curve.rates.call_seconds)


def measure_fill(way: Way, memory: Memory) -> float:
    """What middling products cost beyond their curve: copies need time to reach their rates.

    Threads that copy sleep when each begins.
    """
    costs = []
    for middling in _MIDDLING:
        problem = replace(middling, memory=memory)
        plan = choose_plan(problem, way.profile, PlanOptions(f=0))
        curve = plan.gpu_alone_curve
        assert plan.spec is not None, "without rows for the CPU there is a kernel"
        assert curve is not None, "and its curve"
        shape = problem.m, problem.n, problem.k
        copy = prepare_copies(way, memory, *shape, spec=plan.spec)
        seconds = repeat(copy, _FILL_SECONDS, rest_seconds=REST_SECONDS)
        costs.append(seconds - curve.seconds(problem.m))
    return max(0.0, statistics.median(costs))


def prepare_copies(
    way: Way,
    memory: Memory,
    m: int,
    n: int,
    k: int,
    *,
    spec: KernelSpec | None = None,
    copiers: int | None = None,
    begun: Callable[[], None] | None = None,
) -> Callable[[], float]:
    """A product through the pipeline, which returns its wall seconds; the GPU has woken up.

    Args:
        way: The way to the GPU.
        memory: Where the operands lie.
        m: Rows of C.
        n: Columns of C.
        k: Columns of A.
        spec: The kernel; None for the library's.
        copiers: Threads that share in a staged copy; None for all.
        begun: Called when the first copies of each are on their way.
    """
    kernel = spec or find_kernel("cublas", "float32")
    cut = way.find_cut(kernel, GemmProblem(m, n, k, kernel.dtype, memory=memory))
    a, b, c = (_make_matrix(memory, *shape, kernel.dtype) for shape in ((m, k), (k, n), (m, n)))

    def measure() -> float:
        start = time.perf_counter()
        way.pipeline.multiply(kernel, a, b, c, cut=cut, copiers=copiers, begun=begun)
        return time.perf_counter() - start

    awake = time.perf_counter() + _WAKE_SECONDS
    while time.perf_counter() < awake:
        measure()
    return measure


def _time_pipeline(way: Way, memory: Memory, m: int, n: int, k: int) -> float:
    """Median wall seconds of one product through the pipeline."""
    return repeat(prepare_copies(way, memory, m, n, k), _LINK_SECONDS)


def _make_matrix(memory: Memory, rows: int, columns: int, dtype: str) -> NDArray[Any]:
    """A matrix whose pages are there."""
    matrix: NDArray[Any] = (
        pin_matrix(rows, columns, dtype) if memory == "pinned" else np.empty((rows, columns), dtype)
    )
    matrix.fill(0.5)
    return matrix
