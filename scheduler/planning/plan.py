"""The plan: which devices compute which rows of a product, and the seconds that follow. Pure."""

from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from typing import Any, Final, NamedTuple

from wavetrim.cpu.blocks import is_small
from wavetrim.kernels.spec import KernelSpec
from wavetrim.native.tuned import STAGING_THREADS
from wavetrim.scheduler.planning.cpu_rows import (
    CONTENTION,
    count_split_threads,
    delay_end,
    find_cpu_seconds,
    name_cpu_bottleneck,
)
from wavetrim.scheduler.planning.device_sets import CPU, DeviceSet
from wavetrim.scheduler.planning.gpu_rows import GpuPart
from wavetrim.scheduler.planning.team import GpuSide
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.corrections import Factor
from wavetrim.scheduler.profile.machine import MachineProfile

SHORT_SECONDS: Final = 5e-3
"""Longest predicted time of a product without reports and cancellation; chosen."""

CROWDED_BYTES: Final = 64 << 20
"""Largest A, B and C together, in bytes, that the driver copies on a crowded machine. Chosen: a
thread without a core delays a shared copy by up to 3 ms; in that time the driver copies 30 MB."""


class Prediction(NamedTuple):
    """Seconds of both parts of a plan."""

    gpu_seconds: float
    cpu_seconds: float

    @property
    def total_seconds(self) -> float:
        """Seconds of the longer part: both run at the same time."""
        return max(self.gpu_seconds, self.cpu_seconds)

    def describe(self) -> dict[str, float]:
        """The seconds, ready for JSON."""
        return {**self._asdict(), "total_seconds": self.total_seconds}


class Kind(NamedTuple):
    """A kind of run, and the factor on its predictions."""

    name: str
    factor: Factor


@dataclass(frozen=True, repr=False)
class Plan:
    """Who computes what: one or several GPUs the first M-F rows of C, the CPU the last F.

    Attributes:
        problem: The product.
        profile: The machine.
        positions: Positions of the plan's GPUs among those of the profile.
        side: These GPUs with one kernel; None if none can compute the product. If f is M, they are
            what the CPU was compared with.
        sms: Limit of multiprocessors for the kernel; None for all.
        version: The version of the corrections before anything was predicted.
        f: Rows of C that the CPU computes, 0…M.
        gpu_parts: The parts of the GPUs that have rows, from the first row or column on.
        uncorrected: The seconds of both parts with this F, by the model alone.
        refused: The best split, if it promised less than its gain; else None.
        no_gpu_reason: Why no GPU can compute the product; None if one can.
        one_gpu_seconds: Predicted seconds of one GPU alone, where several have rows.
    """

    problem: GemmProblem
    profile: MachineProfile
    positions: tuple[int, ...]
    side: GpuSide | None
    sms: int | None
    version: int
    f: int
    gpu_parts: tuple[GpuPart, ...]
    uncorrected: Prediction
    refused: "Plan | None" = None
    no_gpu_reason: str | None = None
    one_gpu_seconds: float | None = None

    def give_cpu(self, f: int) -> "Plan":
        """The plan with another F, by the same kernel on the same GPUs."""
        if f == self.f:
            return self
        problem, side = self.problem, self.side
        parts: tuple[GpuPart, ...] = ()
        if f < problem.m:
            assert side is not None, "rows are left to the GPU only where a kernel runs them"
            side = side.slow_copies(CONTENTION[problem.memory]) if f else side
            parts = side.give_rows(problem.m - f)
        gpu_seconds = max([part.seconds for part in parts], default=0.0)
        cpu_seconds = find_cpu_seconds(problem, self.profile.cpu, f, beside_gpu=f < problem.m)
        seconds = Prediction(gpu_seconds, cpu_seconds)
        return replace(self, f=f, gpu_parts=parts, uncorrected=seconds, refused=None)

    @property
    def gpu_rows(self) -> int:
        """Rows of C that the GPU computes."""
        return self.problem.m - self.f

    @property
    def spec(self) -> KernelSpec | None:
        """The GPUs' kernel; None if they have no rows."""
        return self.side.spec if self.side is not None and self.gpu_rows else None

    @property
    def kinds(self) -> tuple[Kind, Kind]:
        """The kinds of run of the GPUs' part and of the CPU's, with the factors of now."""
        return self.find_kinds(is_split=0 < self.f < self.problem.m)

    def find_kinds(self, *, is_split: bool) -> tuple[Kind, Kind]:
        """The same for a product with both parts, or with one of them."""
        problem, corrections = self.problem, self.profile.corrections
        gpu_bound, cpu_bound = self._bottlenecks
        count = len(self.side.members) if self.side is not None else 1
        gpu, cpu = f"{count} GPUs" if count > 1 else "GPU", "CPU"
        if is_split:
            gpu, cpu = f"{gpu} beside CPU", f"CPU beside GPU, {problem.memory}"
        resident = ", B resident" if problem.b_resident else ""
        gpu, cpu = f"{gpu}, {problem.memory}{resident}: {gpu_bound}", f"{cpu}: {cpu_bound}"
        return Kind(gpu, corrections.find(gpu)), Kind(cpu, corrections.find(cpu))

    @cached_property
    def _bottlenecks(self) -> tuple[str, str]:
        """What bounds all rows on the GPUs, and on the CPU."""
        problem, side = self.problem, self.side
        gpu = side.members[0].name_bottleneck(problem.dtype) if side is not None else ""
        return gpu, name_cpu_bottleneck(problem, self.profile.cpu)

    @property
    def predicted(self) -> Prediction:
        """Predicted seconds of both parts, corrected by the runs until now."""
        (gpu, cpu), (gpu_seconds, cpu_seconds) = self.kinds, self.uncorrected
        return Prediction(gpu.factor.reported * gpu_seconds, cpu.factor.reported * cpu_seconds)

    @property
    def chosen_seconds(self) -> float:
        """The seconds by which plans are compared, with a margin for a late CPU part."""
        (gpu, cpu), (gpu_seconds, cpu_seconds) = self.kinds, self.uncorrected
        cpu_seconds *= cpu.factor.deciding
        if self.gpu_rows:
            cpu_seconds = delay_end(cpu_seconds)
        return max(gpu.factor.deciding * gpu_seconds, cpu_seconds)

    @property
    def exchanges(self) -> bool:
        """Whether the GPUs exchange parts of B, so that it crosses the links once."""
        return self.side is not None and self.side.exchanges and len(self.gpu_parts) > 1

    @property
    def divides_columns(self) -> bool:
        """Whether the GPUs divide the columns of their rows."""
        return len(self.gpu_parts) > 1 and self.side is not None and self.side.divides_columns

    @cached_property
    def is_small(self) -> bool:
        """Whether the CPU computes the product in one thread (`wavetrim.cpu.blocks`)."""
        problem = self.problem
        return is_small(problem.m, problem.n, problem.k, problem.dtype)

    @cached_property
    def is_gpu_alone(self) -> bool:
        """Whether one GPU computes all rows."""
        return self.f == 0 and len(self.gpu_parts) == 1

    @cached_property
    def is_short(self) -> bool:
        """Whether the CPU alone, or GPUs without the host's help, take at most SHORT_SECONDS.

        Staged copies need the host's help: GPUs then need page-locked operands.
        """
        if self.uncorrected.total_seconds > SHORT_SECONDS:
            return False
        return self.f == self.problem.m or (self.f == 0 and self.problem.memory == "pinned")

    @cached_property
    def is_straight(self) -> bool:
        """Whether one GPU computes all rows by the straight path."""
        return self.is_gpu_alone and self.gpu_parts[0].problem.is_straight

    @cached_property
    def device_set(self) -> DeviceSet:
        """The devices that have rows."""
        return frozenset([part.position for part in self.gpu_parts] + [CPU] * (self.f > 0))

    @property
    def split_threads(self) -> int:
        """Threads of the CPU part of a split."""
        return count_split_threads(self.profile.cpu.threads, self.problem.memory)

    @cached_property
    def copiers(self) -> int:
        """Threads of each copy between pageable memory and page-locked slabs."""
        threads = min(STAGING_THREADS, self.profile.cpu.threads)
        return threads if self.problem.memory == "pageable" else 1

    @property
    def waves(self) -> int:
        """Waves of the GPU part; of all GPUs together."""
        return sum(part.waves for part in self.gpu_parts)

    @property
    def waves_gpu_only(self) -> int:
        """Waves if the GPUs computed all rows."""
        return 0 if self.side is None else self.on_gpu.waves

    @property
    def gpu_only_seconds(self) -> float | None:
        """Predicted seconds of one GPU alone; None if no GPU can compute the product."""
        if self.one_gpu_seconds is not None:
            return self.one_gpu_seconds
        return None if self.side is None else self.on_gpu.predicted.total_seconds

    @property
    def cpu_only_seconds(self) -> float:
        """Predicted seconds of the CPU alone."""
        return self.give_cpu(self.problem.m).predicted.total_seconds

    @cached_property
    def on_gpu(self) -> "Plan":
        """The plan with all rows on the same GPUs; kept, as it takes long to find."""
        return self.give_cpu(0)

    def predict(self, f: int) -> Prediction:
        """Predicted seconds with another F, by the same kernel on the same GPUs."""
        return self.give_cpu(f).predicted

    @property
    def may_copy_by_driver(self) -> bool:
        """Whether the driver may copy all operands, in the calling thread, on a crowded machine."""
        problem = self.problem
        is_copied = problem.memory == "pageable" and not problem.b_resident
        return is_copied and problem.operand_bytes < CROWDED_BYTES

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
        """The plan in a notebook: the same line below its picture."""
        from wavetrim.scheduler.planning.picture import draw_plan

        return f"{draw_plan(self)}<p>{escape(str(self))}</p>"

    def describe(self, *, drawing: bool = False) -> dict[str, Any]:
        """All of the plan, ready for JSON, as `/v1/plan` answers it.

        `curve` has the seconds over F, `profile` the figures that decided, each with its source.

        Args:
            drawing: Whether it is for drawings, which need the schedule, too.
        """
        from wavetrim.scheduler.planning.description import describe_fully

        return describe_fully(self, drawing=drawing)
