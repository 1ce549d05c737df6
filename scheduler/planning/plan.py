"""The plan: F, the kernel of the GPU part, and predicted times. Pure."""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from html import escape
from typing import Any, Final, NamedTuple

from wavetrim.kernels.schedule.steps import Cut
from wavetrim.kernels.spec import KernelSpec
from wavetrim.scheduler.model.corrections import Correction
from wavetrim.scheduler.model.cost import CpuCurve
from wavetrim.scheduler.model.cpu import CpuShare
from wavetrim.scheduler.planning.lanes import CPU, Lane
from wavetrim.scheduler.planning.team import (
    GpuPart,
    GpuSide,
    TeamCurve,
    list_members,
    list_parts,
)
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.machine import MachineProfile

SHORT_SECONDS: Final = 5e-3
"""Longest predicted time for which a device computes without reports and cancellation; chosen."""

LEAST_CHANGE: Final = 0.2
"""Relative change of a correction from which on a plan is made anew. Chosen: noise seldom moves one
as far."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicted seconds of both parts."""

    gpu_seconds: float
    cpu_seconds: float

    @property
    def total_seconds(self) -> float:
        """Seconds of the longer part: both run at the same time."""
        return max(self.gpu_seconds, self.cpu_seconds)


class Decision(NamedTuple):
    """What a plan has its devices do, apart from predictions.

    Attributes:
        problem: The product.
        f: Rows of the CPU.
        spec: The GPUs' kernel.
        sms: Limit of multiprocessors.
        parts: Position, rows, columns and cut of each GPU's part.
        exchanges: Whether the GPUs exchange parts of B.
    """

    problem: GemmProblem
    f: int
    spec: KernelSpec | None
    sms: int | None
    parts: tuple[tuple[int, range, range, Cut], ...]
    exchanges: bool


@lru_cache(maxsize=4096)
def _share(decision: Decision) -> Decision:
    """The same object for equal decisions."""
    return decision


@dataclass(frozen=True, repr=False)
class Plan:
    """Who computes what: one or several GPUs the first M-F rows of C, the CPU the last F.

    Attributes:
        problem: The product.
        f: Rows of C that the CPU computes, 0…M.
        spec: The GPU's kernel; None if f is M.
        sms: Limit of multiprocessors for the kernel; None for all.
        profile: The machine.
        predicted: Predicted seconds of both parts.
        gpu_curve: Rows → seconds on the GPU, or on several, in a split with `spec`; if f is M, with
            the kernel that the CPU was compared with. None if no GPU can compute the product.
        gpu_alone_curve: The same without a CPU part.
        share: How the CPU is shared in a split.
        cpu_curve: Rows → seconds on the CPU in a split.
        cpu_alone_curve: Rows → seconds on the CPU without a GPU part.
        no_gpu_reason: Why no GPU can compute the product; None if one can.
        is_small: Whether the CPU computes the product in one thread (`wavetrim.cpu.blocks`).
        positions: Positions of the curves' GPUs among those of the profile.
        gpu_shares: Rows of each of them.
        one_gpu_seconds: Predicted seconds of one GPU alone, where several have rows.
    """

    problem: GemmProblem
    f: int
    spec: KernelSpec | None
    sms: int | None
    profile: MachineProfile
    predicted: Prediction
    gpu_curve: GpuSide | None
    gpu_alone_curve: GpuSide | None
    share: CpuShare
    cpu_curve: CpuCurve
    cpu_alone_curve: CpuCurve
    no_gpu_reason: str | None = None
    is_small: bool = False
    positions: tuple[int, ...] = ()
    gpu_shares: tuple[int, ...] = ()
    one_gpu_seconds: float | None = None

    @property
    def gpu_rows(self) -> int:
        """Rows of C that the GPU computes."""
        return self.problem.m - self.f

    def _find_side(self, f: int) -> GpuSide | None:
        """The GPUs' curve with this F: beside a CPU part, or alone."""
        return self.gpu_curve if f else self.gpu_alone_curve

    @property
    def exchanges(self) -> bool:
        """Whether the GPUs exchange parts of B, so that it crosses the links once."""
        side = self._find_side(self.f)
        return isinstance(side, TeamCurve) and side.exchanges and len(self.gpu_parts) > 1

    @property
    def divides_columns(self) -> bool:
        """Whether the GPUs divide the columns of their rows."""
        parts = self.gpu_parts
        return len(parts) > 1 and parts[0].columns != parts[-1].columns

    @cached_property
    def gpu_parts(self) -> tuple[GpuPart, ...]:
        """The parts of the GPUs that have rows, from the first row or column on."""
        side = self._find_side(self.f)
        if side is None or self.gpu_rows == 0:
            return ()
        return list_parts(side, self.positions, self.gpu_shares)

    @cached_property
    def decision(self) -> Decision:
        """What the devices do. Equal plans have the same object, which is found by identity."""
        parts = tuple((one.position, one.rows, one.columns, one.cut) for one in self.gpu_parts)
        return _share(Decision(self.problem, self.f, self.spec, self.sms, parts, self.exchanges))

    @cached_property
    def is_gpu_alone(self) -> bool:
        """Whether one GPU computes all rows."""
        return self.f == 0 and len(self.gpu_parts) == 1

    @cached_property
    def is_short(self) -> bool:
        """Whether the CPU alone, or GPUs that the host does not help, take at most SHORT_SECONDS.

        The host helps GPUs whose operands are not page-locked.
        """
        if self.predicted.total_seconds > SHORT_SECONDS:
            return False
        return self.f == self.problem.m or (self.f == 0 and self.problem.memory == "pinned")

    @cached_property
    def lane(self) -> Lane:
        """The devices that have rows."""
        return frozenset([part.position for part in self.gpu_parts] + [CPU] * (self.f > 0))

    @property
    def corrections(self) -> tuple[Correction, ...]:
        """The corrections of the plan's parts, the GPUs' first."""
        if self.f == self.problem.m:
            return (self.cpu_alone_curve.correction,)
        side = self._find_side(self.f)
        found = [one.correction for one in list_members(side)] if side is not None else []
        return tuple(dict.fromkeys([*found, self.cpu_curve.correction] if self.f else found))

    @property
    def uncorrected_seconds(self) -> float:
        """The predicted seconds without corrections."""
        seconds = [part.seconds / part.curve.correction.factor for part in self.gpu_parts]
        if self.f:
            cpu = self.cpu_curve if self.gpu_rows else self.cpu_alone_curve
            seconds.append(self.predicted.cpu_seconds / cpu.correction.factor)
        return max(seconds)

    @property
    def is_current(self) -> bool:
        """Whether later runs have moved no correction by `LEAST_CHANGE` or more."""
        find = self.profile.corrections.find
        return all(
            abs(find(one.run_class).factor - one.factor) < LEAST_CHANGE * one.factor
            for one in self.corrections
        )

    @property
    def waves(self) -> int:
        """Waves of the GPU part; of all GPUs together."""
        return sum(part.waves for part in self.gpu_parts)

    @property
    def waves_gpu_only(self) -> int:
        """Waves if the GPUs computed all rows."""
        side = self.gpu_alone_curve
        if side is None:
            return 0
        parts = list_parts(side, self.positions, side.divide(self.problem.m))
        return sum(part.waves for part in parts)

    @property
    def tail_utilization(self) -> float:
        """Filled share of the GPU part's last wave; the first GPU's of several."""
        return self.gpu_parts[0].tail_utilization if self.gpu_parts else 0.0

    @property
    def tail_split(self) -> bool:
        """Whether the last wave is split along K, so that it costs about its filled share."""
        return bool(self.gpu_parts) and self.gpu_parts[0].tail_split

    @property
    def gpu_only_seconds(self) -> float | None:
        """Predicted seconds of one GPU alone; None if no GPU can compute the product."""
        if self.one_gpu_seconds is not None:
            return self.one_gpu_seconds
        return self.gpu_alone_curve.seconds(self.problem.m) if self.gpu_alone_curve else None

    @property
    def cpu_only_seconds(self) -> float:
        """Predicted seconds of the CPU alone."""
        return self.cpu_alone_curve.seconds(self.problem.m)

    def predict(self, f: int) -> Prediction:
        """Predicted seconds with another F."""
        if f == self.problem.m:
            return Prediction(0.0, self.cpu_alone_curve.seconds(f))
        gpu = self._find_side(f)
        assert gpu is not None, "rows are left to the GPU only where a kernel runs them"
        return Prediction(gpu.seconds(self.problem.m - f), self.cpu_curve.seconds(f))

    def find_crowded_f(self, *, numpy_has_cores: bool) -> int:
        """F while other threads want the cores: 0 or M, as a CPU part of a split would be late.

        What threads do takes twice as long then: the CPU's rows, and copies of pageable memory.
        Only NumPy's product is as fast as ever if those threads are BLAS's own, which spin.

        Args:
            numpy_has_cores: Whether products of NumPy find their cores.
        """
        gpu_seconds, cpu_seconds = self.gpu_only_seconds, self.cpu_only_seconds
        if gpu_seconds is None or self.is_small:
            return self.problem.m
        if self.problem.memory == "pageable":
            gpu_seconds *= 2
        return self.problem.m if cpu_seconds * (1 if numpy_has_cores else 2) <= gpu_seconds else 0

    def __str__(self) -> str:
        """The plan in one line."""
        problem, seconds = self.problem, self.predicted.total_seconds
        kernel = "" if self.spec is None else f" by {self.spec.label}"
        return (
            f"C[{problem.m},{problem.n}] = A[{problem.m},{problem.k}]·B[{problem.k},{problem.n}]"
            f" in {problem.dtype} on {self.profile.device}: F = {self.f}, {self.gpu_rows} rows on "
            f"the GPU{kernel}, {self.waves} waves, {seconds:.3g} s predicted"
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The same for notebooks, with the seconds of both sides."""
        rows = {
            "product": str(self).partition(":")[0],
            "F": f"{self.f} rows on the CPU, {self.predicted.cpu_seconds:.3g} s",
            "GPU": f"{self.gpu_rows} rows, {self.waves} waves, {self.predicted.gpu_seconds:.3g} s",
            "kernel": "none" if self.spec is None else self.spec.label,
        }
        cells = (f"<tr><th>{name}</th><td>{escape(text)}</td></tr>" for name, text in rows.items())
        return f"<table>{''.join(cells)}</table>"

    def describe(self, *, drawing: bool = False) -> dict[str, Any]:
        """All of the plan, ready for JSON, as `/v1/plan` answers it.

        `curve` has the seconds over F, `profile` the figures that decided, each with its source.

        Args:
            drawing: Whether it is for drawings: it then has the schedule, and more points.
        """
        from wavetrim.scheduler.planning.explanation import explain_plan

        return explain_plan(self, drawing=drawing)

    def move(self, f: int, spec: KernelSpec) -> "Plan":
        """The same plan with another F and this kernel, which is dropped if F is M."""
        rows = self.problem.m - f
        side = self._find_side(f)
        shares = side.divide(rows) if side is not None else ()
        kernel = spec if rows else None
        return replace(self, f=f, spec=kernel, predicted=self.predict(f), gpu_shares=shares)
