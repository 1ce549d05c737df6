"""The plan: which rows the GPU takes, with which kernel, and how long it should take.

Candidates (a shortlist of the kernels that fit, each with its best F, and the CPU alone) are
scored by their predicted seconds; the fastest is the choice. Pure: nothing here touches an array
or a device.
"""

from dataclasses import dataclass, replace
from typing import Final, Literal

from kernels.catalog import KernelSpec, find_kernel, list_kernels
from kernels.errors import UnknownKernel
from scheduler.cost import CostCurve, CpuCurve, GpuCurve
from scheduler.curves import build_cpu_curve, build_gpu_curve
from scheduler.errors import PlanError
from scheduler.machine import MachineProfile
from scheduler.problem import GemmProblem
from scheduler.split import split_rows

SHORTLIST: Final = 4
"""Kernels that are looked at with every F: the fastest ones on all rows."""

WORTHWHILE_GAIN: Final = 0.02
"""A split must promise at least this gain over the better single device: below it the
prediction's own error decides, and one device alone is the steadier choice."""

AUTO_ACCURACIES: Final = ("strict", "library")
"""What "auto" chooses among; a kernel of another accuracy is used when it is asked for by name."""

RowsOrAuto = int | Literal["auto"]
"""F as a caller asks for it."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Seconds that a plan should take: each part, and the longer of the two."""

    gpu_seconds: float
    cpu_seconds: float

    @property
    def total_seconds(self) -> float:
        """The two parts run at the same time, so the longer one counts."""
        return max(self.gpu_seconds, self.cpu_seconds)


@dataclass(frozen=True, slots=True)
class Plan:
    """Rows 0…M-F-1 to the GPU, the last F to the CPU.

    Attributes:
        problem: The product.
        f: Rows of C that the CPU computes, 0…M.
        spec: The GPU's kernel; None when f is M and no kernel is launched.
        profile: What the decision was made from.
        predicted: Seconds of the two parts.
        gpu_curve: Rows → seconds on the GPU with `spec` (or with the kernel it was compared
            with, when f is M); None when no GPU runs this product.
        cpu_curve: Rows → seconds on the CPU beside the GPU.
        cpu_alone_curve: Rows → seconds on the CPU with the machine to itself.
    """

    problem: GemmProblem
    f: int
    spec: KernelSpec | None
    profile: MachineProfile
    predicted: Prediction
    gpu_curve: GpuCurve | None
    cpu_curve: CpuCurve
    cpu_alone_curve: CpuCurve

    @property
    def gpu_rows(self) -> int:
        """Rows of C that the GPU computes."""
        return self.problem.m - self.f

    @property
    def waves(self) -> int:
        """Waves of the GPU part."""
        return self.gpu_curve.grid.count_waves(self.gpu_rows) if self.gpu_curve else 0

    @property
    def waves_gpu_only(self) -> int:
        """Waves if the GPU computed every row."""
        return self.gpu_curve.grid.count_waves(self.problem.m) if self.gpu_curve else 0

    @property
    def tail_utilization(self) -> float:
        """Filled share of the GPU part's last wave."""
        return self.gpu_curve.grid.tail_utilization(self.gpu_rows) if self.gpu_curve else 0.0

    @property
    def gpu_only_seconds(self) -> float | None:
        """Predicted seconds of the GPU alone; None where no GPU runs this product."""
        return self.gpu_curve.seconds(self.problem.m) if self.gpu_curve else None

    @property
    def cpu_only_seconds(self) -> float:
        """Predicted seconds of the CPU alone."""
        return self.cpu_alone_curve.seconds(self.problem.m)

    def predict(self, f: int) -> Prediction:
        """What another F would take."""
        return _predict(self.problem, f, self.gpu_curve, self.cpu_curve, self.cpu_alone_curve)

    def move(self, f: int) -> "Plan":
        """The same plan with another F; without a kernel when the CPU takes every row."""
        spec = self.spec if f < self.problem.m else None
        return replace(self, f=f, spec=spec, predicted=self.predict(f))


def choose_plan(
    problem: GemmProblem,
    profile: MachineProfile,
    *,
    kernel: str = "auto",
    tile: str | None = None,
    f: RowsOrAuto = "auto",
) -> Plan:
    """Choose kernel and F for a product on a machine.

    Args:
        problem: The product.
        profile: The machine.
        kernel: A name of the catalog, or "auto" for the fastest.
        tile: A tile of that kernel ("32", "64x128x16"); None for the fastest.
        f: Rows for the CPU, or "auto" for the best.

    Raises:
        PlanError: The kernel or tile is unknown or cannot run this product here, or f is
            outside 0…M.
    """
    if f != "auto" and not 0 <= f <= problem.m:
        raise PlanError("f", f, f'"auto" or 0…{problem.m}, the rows of C')
    specs = _find_candidates(problem, profile, kernel, tile)
    if f != "auto" and f < problem.m and not specs:
        raise PlanError("f", f, f'"auto" or {problem.m}: {_explain_no_kernel(problem, profile)}')
    if not specs:
        return _build_plan(problem, profile, None, problem.m)
    shortlist = _rank_kernels(problem, profile, specs)[:SHORTLIST]
    plans = [_plan_kernel(problem, profile, spec, f) for spec in shortlist]
    return min(plans, key=lambda plan: plan.predicted.total_seconds)


def _rank_kernels(
    problem: GemmProblem, profile: MachineProfile, specs: list[KernelSpec]
) -> list[KernelSpec]:
    """The kernels by the seconds they take for all rows, the fastest first.

    Behind a slow link every kernel ends at the same time; among equals the faster one is wanted.
    """

    def measure(spec: KernelSpec) -> float:
        curve = build_gpu_curve(problem, profile, spec)
        assert curve is not None, "candidates run on this machine"
        return curve.kernel_seconds(problem.m)

    return sorted(specs, key=measure)


def _plan_kernel(
    problem: GemmProblem, profile: MachineProfile, spec: KernelSpec, f: RowsOrAuto
) -> Plan:
    """The best plan with one kernel."""
    gpu_only = _build_plan(problem, profile, spec, 0)
    if f != "auto":
        return gpu_only.move(f)
    assert gpu_only.gpu_curve is not None, "candidates run on this machine"
    curves: list[CostCurve] = [gpu_only.gpu_curve, gpu_only.cpu_curve]
    cpu_only = gpu_only.move(problem.m)
    split = gpu_only.move(split_rows(problem.m, curves)[1])
    alone = min(gpu_only, cpu_only, key=lambda plan: plan.predicted.total_seconds)
    limit = alone.predicted.total_seconds * (1 - WORTHWHILE_GAIN)
    return split if split.predicted.total_seconds <= limit else alone


def _build_plan(
    problem: GemmProblem, profile: MachineProfile, spec: KernelSpec | None, f: int
) -> Plan:
    gpu = build_gpu_curve(problem, profile, spec) if spec else None
    beside = build_cpu_curve(problem, profile, beside_gpu=True)
    alone = build_cpu_curve(problem, profile, beside_gpu=False)
    return Plan(
        problem=problem,
        f=f,
        spec=spec if f < problem.m else None,
        profile=profile,
        predicted=_predict(problem, f, gpu, beside, alone),
        gpu_curve=gpu,
        cpu_curve=beside,
        cpu_alone_curve=alone,
    )


def _predict(
    problem: GemmProblem, f: int, gpu: GpuCurve | None, beside: CpuCurve, alone: CpuCurve
) -> Prediction:
    if f == problem.m:
        return Prediction(0.0, alone.seconds(f))
    assert gpu is not None, "rows are left to the GPU only where a kernel runs them"
    return Prediction(gpu.seconds(problem.m - f), beside.seconds(f))


def _find_candidates(
    problem: GemmProblem, profile: MachineProfile, kernel: str, tile: str | None
) -> list[KernelSpec]:
    """The kernels that may be chosen: one when it is named with its tile."""
    if kernel == "auto":
        if tile is not None:
            raise PlanError("tile", tile, 'left out while kernel is "auto"')
        specs = [s for s in list_kernels(dtype=problem.dtype) if s.accuracy in AUTO_ACCURACIES]
    else:
        specs = _find_named(problem, kernel, tile)
    runnable = [spec for spec in specs if profile.find_kernel_model(spec) is not None]
    if kernel != "auto" and specs and not runnable and profile.gpu is not None:
        limit = f"one that {profile.device} runs"
        raise PlanError("kernel", kernel, limit)
    return runnable


def _find_named(problem: GemmProblem, kernel: str, tile: str | None) -> list[KernelSpec]:
    names = {spec.name for spec in list_kernels()}
    if kernel not in names:
        raise PlanError("kernel", kernel, f"one of auto, {', '.join(sorted(names))}")
    if tile is not None:
        try:
            return [find_kernel(kernel, problem.dtype, tile)]
        except UnknownKernel as error:
            raise PlanError(error.field, error.value, error.limit) from error
    specs = [spec for spec in list_kernels(dtype=problem.dtype) if spec.name == kernel]
    if not specs:
        has = ", ".join(sorted({spec.dtype for spec in list_kernels() if spec.name == kernel}))
        raise PlanError("kernel", kernel, f"one that multiplies {problem.dtype}; it has {has}")
    return specs


def _explain_no_kernel(problem: GemmProblem, profile: MachineProfile) -> str:
    if profile.gpu is None:
        return "there is no GPU, so the CPU computes every row"
    return f"no kernel multiplies {problem.dtype}, so the CPU computes every row"
