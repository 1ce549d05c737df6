"""Measures the links between each kind of host memory and the GPU."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from wavetrim.kernels.catalog import find_kernel
from wavetrim.kernels.pipeline.pipeline import GpuPipeline
from wavetrim.kernels.schedule.steps import Cut
from wavetrim.kernels.spec import KernelSpec
from wavetrim.kernels.timing.joint_rates import measure_joint_rates, measure_row_seconds
from wavetrim.scheduler.calibration.operands import OperandMemory
from wavetrim.scheduler.calibration.repetition import find_possible, repeat
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.execution.timings import Timings
from wavetrim.scheduler.model.curves import build_gpu_curve
from wavetrim.scheduler.model.gpu_curve import GpuCurve
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.problem import MEMORIES, GemmProblem, Memory
from wavetrim.scheduler.profile.estimate import COPY_SECONDS
from wavetrim.scheduler.profile.machine import LinkModel, MachineProfile

LINK_SIDE: Final = 8192
_SIDES: Final = LINK_SIDE // 2, LINK_SIDE
"""Sides of two products whose difference gives a rate. With sides of 8192 and 12288, copies both
ways at once seemed slower than one after the other (H200)."""

_LEAST_TOGETHER: Final = 0.5
_PROBED_BYTES: Final = 128 << 20
_PROBE_RUNS: Final = 12
_WAKE_SECONDS: Final = 0.15
_WARM_SECONDS: Final = 0.02
_LINK_SECONDS: Final = 0.15
"""Least of `LinkModel.together`, and sizes, runs and times of the measurements; chosen."""

_WAKING: Final = 2048
"""M, N and K of the products that wake the GPU; chosen."""

_ABOVE: Final = 1.1
"""By how much a measured rate may be above that of the link; chosen."""


@dataclass(frozen=True, slots=True)
class PipelineProfile:
    """The measured executor's first pipeline, and the profile by which its products are cut.

    Attributes:
        executor: Runs whole products, as users do.
        profile: Estimates, and what has been measured so far.
        memory: The memory of its products.
        until: Time (`time.perf_counter`) after which each measurement is as brief as possible.
    """

    executor: Executor
    profile: MachineProfile
    memory: OperandMemory = field(default_factory=OperandMemory)
    until: float = math.inf

    @property
    def pipeline(self) -> GpuPipeline:
        """The pipeline of the GPU that is measured."""
        return self.executor.pipelines[0]

    def plan(self, problem: GemmProblem, *, f: int = 0, kernel: str = "cublas") -> Plan:
        """The plan of a product by the current profile."""
        return choose_plan(problem, self.profile, PlanOptions(f=f, kernel=kernel))

    def find_cut(self, spec: KernelSpec, problem: GemmProblem) -> Cut:
        """The cut of a product by the current profile."""
        return self.build_curve(spec, problem).find_cut(problem.m)

    def build_curve(self, spec: KernelSpec, problem: GemmProblem) -> GpuCurve:
        """Rows → seconds by the current profile."""
        model = self.profile.find_kernel_model(spec)
        assert model is not None, "every kernel has times, measured or assumed"
        return build_gpu_curve(problem, self.profile, spec, model)


@dataclass(frozen=True, slots=True)
class _Rates:
    """Bytes a second in each direction, and `LinkModel.together`."""

    inwards: float
    outwards: float
    together: float


def wake_gpu(measured: PipelineProfile) -> None:
    """Run products until the GPU has its clocks and its link its speed."""
    run = prepare_copies(measured, "pageable", *(_WAKING,) * 3)
    awake = time.perf_counter() + _WAKE_SECONDS
    while time.perf_counter() < awake:
        run()


def measure_links(
    measured: PipelineProfile, *, device_index: int, source: str
) -> tuple[LinkModel, ...]:
    """The rates of each link, staging included. Calls and steps take no time yet.

    Args:
        measured: The pipeline.
        device_index: The GPU.
        source: Source that the figures name.
    """
    rates = {"pinned": _probe_rates(device_index)}
    rates["pageable"] = _measure_staged_rates(measured, rates["pinned"])
    row_seconds = measure_row_seconds(device_index, _PROBED_BYTES, _PROBE_RUNS)
    return tuple(
        LinkModel(
            memory=memory,
            in_gbytes_per_second=rates[memory].inwards / 1e9,
            out_gbytes_per_second=rates[memory].outwards / 1e9,
            call_seconds=0.0,
            source=source,
            copy_seconds=COPY_SECONDS[memory],
            row_seconds=row_seconds if memory == "pinned" else 0.0,
            together=rates[memory].together,
        )
        for memory in MEMORIES
    )


def measure_links_again(
    measured: PipelineProfile, links: Sequence[LinkModel], *, device_index: int
) -> tuple[LinkModel, ...]:
    """The links of another GPU of the same model, whose calls and steps take as long.

    Args:
        measured: The pipeline.
        links: The first GPU's links.
        device_index: The other GPU.
    """
    found = measure_links(measured, device_index=device_index, source=links[0].source)
    return tuple(
        replace(
            link,
            in_gbytes_per_second=other.in_gbytes_per_second,
            out_gbytes_per_second=other.out_gbytes_per_second,
            row_seconds=other.row_seconds,
            together=other.together,
        )
        for link, other in zip(links, found, strict=True)
    )


def _probe_rates(device_index: int) -> _Rates:
    """Rates of page-locked memory, from transfers alone: nothing is staged."""
    rates = measure_joint_rates([device_index], _PROBED_BYTES, _PROBE_RUNS)
    inwards, outwards = rates.in_bytes_per_second, rates.out_bytes_per_second
    # Seconds of both ways at once, over those of one after the other.
    together = 2 / rates.both_bytes_per_second / (1 / inwards + 1 / outwards)
    return _Rates(inwards, outwards, min(max(together, _LEAST_TOGETHER), 1.0))


def _measure_staged_rates(measured: PipelineProfile, direct: _Rates) -> _Rates:
    """Rates of pageable memory, from the difference between a larger and a smaller product.

    A tall product with few columns and a short K consists of copies in, one with a very short K of
    copies out, and a third one has both in equal amounts.
    """

    def time_more(shape: Callable[[int], tuple[int, int, int]]) -> float:
        less, more = (_time_pipeline(measured, "pageable", *shape(side)) for side in _SIDES)
        return more - less

    less, more = (side * side * 4 for side in _SIDES)
    moved_bytes = more - less
    in_rate = find_rate(lambda: time_more(_shape_in), moved_bytes, direct.inwards)
    out_rate = find_rate(lambda: time_more(_shape_out), moved_bytes, direct.outwards)
    apart_seconds = moved_bytes / in_rate / 2 + moved_bytes / out_rate / 2
    together = time_more(_shape_both) / apart_seconds
    return _Rates(in_rate, out_rate, min(max(together, _LEAST_TOGETHER), 1.0))


def find_rate(measure: Callable[[], float], moved_bytes: int, most: float) -> float:
    """Bytes a second, measured as the difference of two times.

    It is measured again if it is beyond what the link can do: -779 GB/s was measured once.

    Args:
        measure: Returns the seconds of these bytes.
        moved_bytes: The bytes.
        most: Rate of the link without staging, which is taken if no measurement is possible.
    """
    seconds = find_possible(measure, lambda found: found * most * _ABOVE >= moved_bytes)
    return most if seconds is None else moved_bytes / seconds


def _shape_in(side: int) -> tuple[int, int, int]:
    """M, N, K of a product of copies in. K is short, so that the last kernel is, too."""
    return 16 * side, 16, side // 16


def _shape_out(side: int) -> tuple[int, int, int]:
    return side, side, 16


def _shape_both(side: int) -> tuple[int, int, int]:
    """M, N, K of a product with half as much to copy in each direction."""
    return 8 * side, side // 16, side // 16


def prepare_copies(
    measured: PipelineProfile,
    memory: Memory,
    m: int,
    n: int,
    k: int,
    *,
    cut: Cut | None = None,
    copiers: int | None = None,
) -> Callable[[], float]:
    """A call that runs a product by cuBLAS through the pipeline and returns its seconds.

    The product has run before, so that all it needs is loaded. Its matrices replace those of the
    last product of this kind of memory.

    Args:
        measured: The pipeline.
        memory: The kind of host memory.
        m: Rows of C.
        n: Columns of C.
        k: Columns of A.
        cut: How it is cut into steps; None for the fastest schedule by the profile.
        copiers: Threads of each staged copy; None for all.
    """
    kernel = find_kernel("cublas", "float32")
    steps = cut or measured.find_cut(kernel, GemmProblem(m, n, k, kernel.dtype, memory=memory))
    a, b, c = measured.memory.take(memory, ((m, k), (k, n), (m, n)), kernel.dtype)

    def measure() -> float:
        start = time.perf_counter()
        measured.pipeline.multiply(kernel, a, b, c, cut=steps, copiers=copiers)
        return time.perf_counter() - start

    _warm_up(measure)
    return measure


def prepare_run(measured: PipelineProfile, plan: Plan) -> Callable[[], Timings]:
    """A call that runs a plan as users do, and returns its times.

    The product has run before. Its matrices replace those of the last product of this kind of
    memory.
    """
    problem = plan.problem
    m, n, k = problem.m, problem.n, problem.k
    a, b, c = measured.memory.take(problem.memory, ((m, k), (k, n), (m, n)), problem.dtype)

    def run() -> Timings:
        return measured.executor.run(plan, a, b, c)

    _warm_up(run)
    return run


def _warm_up(call: Callable[[], object]) -> None:
    warm = time.perf_counter() + _WARM_SECONDS
    while time.perf_counter() < warm:
        call()


def _time_pipeline(measured: PipelineProfile, memory: Memory, m: int, n: int, k: int) -> float:
    """Median seconds of a product through the pipeline."""
    return repeat(prepare_copies(measured, memory, m, n, k), _LINK_SECONDS, until=measured.until)
