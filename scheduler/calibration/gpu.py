"""Measures a GPU: the rates of its kernels, and its links with each kind of host memory.

    kernel = flops / (seconds - bytes of C / bandwidth of the GPU's memory)     several full waves
    rate   = bytes of a long product / (its seconds - those of a tiny product)
    duplex = 1 + (seconds of both ways - seconds of the longer way) / seconds of the shorter way
    call   = seconds of a tiny product - its prediction without a call

The long products have a short K, so that copies bound them, and run through the pipeline in given
panels. The others are planned, and run as those of users.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from wavetrim.kernels.catalog import find_kernel, list_kernels
from wavetrim.kernels.pipeline.host_product import HostProduct
from wavetrim.kernels.schedule.panels import Cut
from wavetrim.kernels.spec import KernelSpec
from wavetrim.kernels.timing.whole_tiles import KernelProbe
from wavetrim.native.plain import Matrix
from wavetrim.scheduler.calibration.repetition import OperandMemory, repeat, time_call
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.problem import MEMORIES, GemmProblem, Memory
from wavetrim.scheduler.profile.machine import (
    CpuModel,
    GpuModel,
    KernelRate,
    LinkModel,
    MachineProfile,
)

Report = Callable[[str, float], None]
"""Called with what is being measured and the finished share, 0…1."""

_ROUNDS: Final = 12
"""Tiles of a launch for each multiprocessor: full waves with 1, 2, 3, 4, 6 or 12 blocks on each.
Chosen."""

_DEPTH: Final = 2048
_LAUNCHES: Final = 3
"""K, and launches whose median counts; chosen."""

_MEASURED: Final = "float32", "float64", "float16"
"""Element types that are measured. bfloat16 has float16's rates, complex types are estimated."""

_SECONDS: Final = 0.06
_QUICK_SECONDS: Final = 0.05
"""Time of a measurement of a long product, and of a quick one; chosen."""

_SIDE: Final = 8192
_IN: Final = 16 * _SIDE, 16, _SIDE // 16
_OUT: Final = _SIDE, _SIDE, 16
_BOTH: Final = 8 * _SIDE, _SIDE // 16, _SIDE // 16
"""M, N and K of products of copies in, of copies out, and of half as many of each. The square of
the side is the number of elements copied. Chosen: smaller ones the driver may copy."""

_PANELS: Final = 8
"""Panels of the product that copies both ways; chosen."""

_TINY: Final = 64
_CUT_KERNEL: Final = "register"
"""Side of a tiny product, and a kernel by which it does not take the straight path; chosen."""

_STRAIGHT: Final = 64, 640
"""Sides of two products that take the straight path; chosen."""

_MOST_COPY_GBYTES: Final = 200.0
"""Rate above which the driver's copies from pageable memory take no more time; chosen."""

_MOST_DUPLEX: Final = 2.0
"""The factor of directions that take turns."""


def list_measured(gpu: GpuModel) -> tuple[KernelSpec, ...]:
    """The kernels that plans may take on a GPU and whose rates are measured."""
    return tuple(
        spec
        for spec in list_kernels(compute_capability=gpu.compute_capability)
        if spec.automatic and spec.dtype in _MEASURED
    )


def measure_kernels(
    gpu: GpuModel, device_index: int, cache_dir: Path, source: str, *, tell: Report
) -> tuple[KernelRate, ...]:
    """The rates of the kernels that plans may take."""
    specs = list_measured(gpu)
    rates: list[KernelRate] = []
    for done, spec in enumerate(specs):
        tell(spec.label, done / len(specs))
        probe = KernelProbe(
            spec, sm_count=gpu.sm_count, device_index=device_index, cache_dir=cache_dir
        )
        timing = probe.measure(_ROUNDS, _DEPTH, repeats=_LAUNCHES)
        c_elements = timing.rows * timing.n
        c_seconds = 1e-9 * spec.item_bytes * c_elements / gpu.memory_gbytes_per_second
        seconds = max(timing.seconds - c_seconds, timing.seconds / 2)
        gflops = 2e-9 * c_elements * _DEPTH / seconds
        rate = KernelRate(spec.name, spec.dtype, str(spec.tile), gflops, source)
        rates.append(rate)
        if spec.dtype == "float16":
            rates.append(replace(rate, dtype="bfloat16", source=f"{source} in float16"))
    return tuple(rates)


@dataclass(frozen=True, slots=True)
class GpuBench:
    """An executor whose first GPU is measured, and the memory of its products, of each kind."""

    executor: Executor
    memories: dict[Memory, OperandMemory] = field(default_factory=dict)

    def take(self, problem: GemmProblem) -> tuple[Matrix, Matrix, Matrix]:
        """A, B and C of a product, in place of those of the last one in this kind of memory."""
        memory = self.memories.setdefault(problem.memory, OperandMemory(problem.memory, 264 << 20))
        return memory.take(problem.dtype, problem.m, problem.n, problem.k)

    def time_plan(self, plan: Plan) -> float:
        """Median seconds of calls that run a plan, as users do."""
        a, b, c = self.take(plan.problem)
        return repeat(lambda: time_call(lambda: self.executor.run(plan, a, b, c)), _QUICK_SECONDS)


def measure_links(
    bench: GpuBench, profile: MachineProfile, source: str
) -> tuple[tuple[LinkModel, ...], CpuModel]:
    """The links, and the CPU with its rate of copies; of the rest the profile has estimates."""

    def plan(side: int, memory: Memory, kernel: str = "auto") -> Plan:
        problem = GemmProblem(side, side, side, memory=memory)
        return choose_plan(problem, profile, PlanOptions(f=0, kernel=kernel))

    tiny = {memory: bench.time_plan(plan(_TINY, memory, _CUT_KERNEL)) for memory in MEMORIES}
    # How much longer the larger of two straight products takes than the smaller.
    small, large = (
        {memory: bench.time_plan(plan(side, memory)) for memory in MEMORIES} for side in _STRAIGHT
    )
    straight = {memory: large[memory] - small[memory] for memory in MEMORIES}
    rated = [
        replace(
            _measure_rates(bench, profile.find_link(memory), tiny[memory]),
            source=source, call_seconds=0.0,
        )
        for memory in MEMORIES
    ]  # fmt: skip
    # What the driver's copies from pageable memory take more than those from page-locked memory.
    few, many = (GemmProblem(side, side, side).copied_bytes for side in _STRAIGHT)
    copied_gbytes = 1e-9 * (many - few)
    copy_seconds = straight["pageable"] - straight["pinned"]
    copy_seconds = max(copy_seconds, copied_gbytes / _MOST_COPY_GBYTES)
    cpu = replace(profile.cpu, copy_gbytes_per_second=copied_gbytes / copy_seconds)
    profile = replace(profile, links=tuple(rated), cpu=cpu)
    links = []
    for link in rated:
        free_seconds = plan(_TINY, link.memory, _CUT_KERNEL).predicted.total_seconds
        links.append(replace(link, call_seconds=max(0.0, tiny[link.memory] - free_seconds)))
    return tuple(links), cpu


def _measure_rates(bench: GpuBench, link: LinkModel, tiny_seconds: float) -> LinkModel:
    """A link with its rates in and out, and the factor of both ways at once."""
    in_seconds, out_seconds, both_seconds = (
        max(seconds - tiny_seconds, seconds / 2)
        for seconds in (
            _time_cut(bench, link.memory, _IN, 1),
            _time_cut(bench, link.memory, _OUT, 1),
            _time_cut(bench, link.memory, _BOTH, _PANELS),
        )
    )
    # But for the first copy in and the last copy out, both ways are busy.
    shorter, longer = sorted((in_seconds / 2, out_seconds / 2))
    beyond = both_seconds - longer - shorter / _PANELS
    duplex = 1 + beyond / (shorter * (1 - 1 / _PANELS))
    gbytes = 4e-9 * _SIDE * _SIDE
    return replace(
        link,
        in_gbytes_per_second=gbytes / in_seconds,
        out_gbytes_per_second=gbytes / out_seconds,
        duplex=min(max(1.0, duplex), _MOST_DUPLEX),
    )


def _time_cut(bench: GpuBench, memory: Memory, shape: tuple[int, int, int], panels: int) -> float:
    """Median seconds of a product through the pipeline, in panels of equal size."""
    m, n, k = shape
    kernel = find_kernel("cublas", "float32")
    a, b, c = bench.take(GemmProblem(m, n, k, kernel.dtype, memory))
    cut = Cut(first_rows=m // panels, panel_rows=m // panels, depth=k)
    pipeline, product = bench.executor.gpus.pipelines[0], HostProduct(kernel, a, b, c)
    return repeat(lambda: time_call(lambda: pipeline.multiply(product, cut)), _SECONDS)
