"""The plan: F, the kernel of the GPU part, and predicted times. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from html import escape
from typing import Any, Final, NamedTuple

from wavetrim.cpu.blocks import is_small
from wavetrim.kernels.schedule.panels import Cut
from wavetrim.kernels.spec import KernelSpec
from wavetrim.native.tuned import STAGING_THREADS
from wavetrim.scheduler.planning.cpu_rows import count_split_threads
from wavetrim.scheduler.planning.device_sets import CPU, DeviceSet
from wavetrim.scheduler.planning.gpu_rows import GpuPart
from wavetrim.scheduler.planning.split import Prediction, Prices, ProductTimes
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.machine import MachineProfile

SHORT_SECONDS: Final = 5e-3
"""Longest predicted time of a product without reports and cancellation; chosen."""


class Refused(NamedTuple):
    """A split that promises less than its gain.

    Attributes:
        f: Rows of the CPU.
        seconds: Its seconds with a margin for a late CPU part, which were too many.
    """

    f: int
    seconds: float


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
        positions: Positions of the plan's GPUs among those of the profile.
        gpu_parts: The parts of those that have rows, from the first row or column on.
        times: The times of the product with any F, by `spec`; if f is M, by the kernel that the CPU
            was compared with.
        prices: The uncorrected seconds with this F.
        refused: The best split, if it promised less than its gain; else None.
        no_gpu_reason: Why no GPU can compute the product; None if one can.
        is_small: Whether the CPU computes the product in one thread (`wavetrim.cpu.blocks`).
        one_gpu_seconds: Predicted seconds of one GPU alone, where several have rows.
    """

    problem: GemmProblem
    f: int
    spec: KernelSpec | None
    sms: int | None
    profile: MachineProfile
    positions: tuple[int, ...]
    gpu_parts: tuple[GpuPart, ...]
    times: ProductTimes
    prices: Prices
    refused: Refused | None = None
    no_gpu_reason: str | None = None
    is_small: bool = False
    one_gpu_seconds: float | None = None

    @property
    def gpu_rows(self) -> int:
        """Rows of C that the GPU computes."""
        return self.problem.m - self.f

    @property
    def predicted(self) -> Prediction:
        """Predicted seconds of both parts, corrected by the runs until now."""
        return self.times.correct(self.prices)

    @property
    def chosen_seconds(self) -> float:
        """The seconds by which it was chosen."""
        return self.times.find_seconds(self.prices)

    @property
    def exchanges(self) -> bool:
        """Whether the GPUs exchange parts of B, so that it crosses the links once."""
        side = self.times.alone
        return side is not None and side.exchanges and len(self.gpu_parts) > 1

    @property
    def divides_columns(self) -> bool:
        """Whether the GPUs divide the columns of their rows."""
        parts = self.gpu_parts
        return len(parts) > 1 and parts[0].columns != parts[-1].columns

    @cached_property
    def decision(self) -> Decision:
        """What the devices do; equal plans share one object, to be found by identity."""
        parts = tuple((one.position, one.rows, one.columns, one.cut) for one in self.gpu_parts)
        return _share(Decision(self.problem, self.f, self.spec, self.sms, parts, self.exchanges))

    @cached_property
    def is_gpu_alone(self) -> bool:
        """Whether one GPU computes all rows."""
        return self.f == 0 and len(self.gpu_parts) == 1

    @cached_property
    def is_short(self) -> bool:
        """Whether the CPU alone, or GPUs without the host's help, take at most SHORT_SECONDS.

        Staged copies need the host's help: GPUs then need page-locked operands.
        """
        if self.prices.total_seconds > SHORT_SECONDS:
            return False
        return self.f == self.problem.m or (self.f == 0 and self.problem.memory == "pinned")

    @cached_property
    def is_straight(self) -> bool:
        """Whether one GPU computes all rows the straight way."""
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
        if self.times.alone is None:
            return 0
        return sum(part.waves for part in self._on_gpu.parts)

    @property
    def gpu_only_seconds(self) -> float | None:
        """Predicted seconds of one GPU alone; None if no GPU can compute the product."""
        if self.one_gpu_seconds is not None:
            return self.one_gpu_seconds
        return None if self.times.alone is None else self.times.correct(self._on_gpu).total_seconds

    @property
    def cpu_only_seconds(self) -> float:
        """Predicted seconds of the CPU alone."""
        return self.times.correct(self._on_cpu).total_seconds

    @cached_property
    def _on_gpu(self) -> Prices:
        return self.times.price(0)

    @cached_property
    def _on_cpu(self) -> Prices:
        return self.times.price(self.problem.m)

    def predict(self, f: int) -> Prediction:
        """Predicted seconds with another F, by the same kernel on the same GPUs."""
        return self.times.correct(self.times.price(f))

    def find_crowded_f(self, *, numpy_has_cores: bool) -> int:
        """F while other threads want the cores: 0 or M, as a CPU part of a split would be late.

        The work of threads then takes twice as long: the CPU's rows, and copies of pageable memory.
        NumPy's product is not slower if those threads are BLAS's own, which spin.

        Args:
            numpy_has_cores: Whether products of NumPy lately had their cores.
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


def make_plan(
    times: ProductTimes,
    prices: Prices,
    positions: Sequence[int],
    *,
    sms: int | None = None,
    refused: Prices | None = None,
    no_gpu_reason: str | None = None,
) -> Plan:
    """The plan with one F."""
    problem, side = times.problem, times.alone
    m, n, k = problem.m, problem.n, problem.k
    has_rows = side is not None and prices.f < m
    return Plan(
        problem=problem,
        f=prices.f,
        spec=side.spec if side is not None and has_rows else None,
        sms=sms,
        profile=times.machine,
        positions=tuple(positions),
        gpu_parts=prices.parts,
        times=times,
        prices=prices,
        refused=refused and Refused(refused.f, times.find_seconds(refused)),
        no_gpu_reason=no_gpu_reason,
        is_small=is_small(m, n, k, problem.dtype),
    )
