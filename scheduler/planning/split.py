"""F: the split of a product between GPUs and CPU that ends first.

Both parts work at the same time, so a split takes as long as the longer one:

    F = argmin max(gpu(M − F), cpu(F))    over rows of tiles

The GPUs' time rises with their rows, in waves, and the CPU's falls; so the best F is where they
meet. A split must promise to save a share of the better single device's time, `SPLIT_GAIN`.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple

from wavetrim.kernels.schedule.panels import divide_up
from wavetrim.scheduler.planning.cpu_rows import (
    CONTENTION,
    find_cpu_seconds,
    name_cpu_bottleneck,
)
from wavetrim.scheduler.planning.gpu_rows import GpuPart, GpuSide
from wavetrim.scheduler.problem import GemmProblem, Memory
from wavetrim.scheduler.profile.corrections import Factor
from wavetrim.scheduler.profile.machine import MachineProfile

SPLIT_GAIN: Final[dict[Memory, float]] = {"pinned": 0.05, "pageable": 0.10}
"""Share of the better single device's time that a split must promise to save: one device is the
steadier choice. Staged copies want the CPU's cores as well."""

LATE_SHARE: Final = 0.25
MOST_LATE_SECONDS: Final = 1e-3
"""F is chosen as if the CPU's part took this share longer than predicted, but at most so much
longer. A late end costs all that a split gains, an early one nearly nothing. Chosen: after NumPy,
whose threads still spin, CPU parts of 5 to 10 ms took 1.2 to 1.6 times what was predicted (H200;
results/host-h200-pinned-sweeps.json)."""


class Prices(NamedTuple):
    """The uncorrected seconds of a product with one F.

    Attributes:
        f: Rows of C that the CPU computes.
        parts: The GPUs' parts.
        gpu_seconds: The longest of these; 0 if F is M.
        cpu_seconds: The CPU's rows; 0 if F is 0.
    """

    f: int
    parts: tuple[GpuPart, ...]
    gpu_seconds: float
    cpu_seconds: float

    @property
    def total_seconds(self) -> float:
        """Seconds of the longer part."""
        return max(self.gpu_seconds, self.cpu_seconds)


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicted seconds of both parts."""

    gpu_seconds: float
    cpu_seconds: float

    @property
    def total_seconds(self) -> float:
        """Seconds of the longer part: both run at the same time."""
        return max(self.gpu_seconds, self.cpu_seconds)


class Kind(NamedTuple):
    """A kind of run, and the factor on its predictions."""

    name: str
    factor: Factor


@dataclass(frozen=True)
class ProductTimes:
    """The times of one product: on some GPUs by one kernel, on the CPU, and split between them.

    Attributes:
        problem: The product.
        machine: The machine, whose corrections apply.
        alone: The GPUs without a CPU part; None if none can compute the product.
        version: The version of the corrections before any of these times was found.
    """

    problem: GemmProblem
    machine: MachineProfile
    alone: GpuSide | None
    version: int

    @cached_property
    def in_split(self) -> GpuSide:
        """The GPUs while the CPU computes other rows."""
        assert self.alone is not None, "only rows of a GPU are split"
        start_seconds, copies, _ = CONTENTION[self.problem.memory]
        members = (
            one._replace(rates=one.rates.slow_copies(copies, start_seconds))
            for one in self.alone.members
        )
        return replace(self.alone, members=tuple(members))

    def find_cpu_seconds(self, f: int, *, beside_gpu: bool = True) -> float:
        """The uncorrected seconds of the CPU's rows."""
        return find_cpu_seconds(self.problem, self.machine.cpu, f, beside_gpu=beside_gpu)

    def price(self, f: int) -> Prices:
        """The uncorrected seconds with one F, and the GPUs' lists of parts."""
        if f == self.problem.m:
            return Prices(f, (), 0.0, self.find_cpu_seconds(f, beside_gpu=False))
        side = self.in_split if f else self.alone
        assert side is not None, "rows are left to the GPU only where a kernel runs them"
        parts = side.price(self.problem.m - f)
        gpu_seconds = max(part.seconds for part in parts)
        return Prices(f, parts, gpu_seconds, self.find_cpu_seconds(f))

    def list_kinds(self, f: int) -> tuple[Kind, Kind]:
        """The kinds of run of the GPUs' part and of the CPU's, with the factors of now."""
        names = self._split_names if 0 < f < self.problem.m else self._alone_names
        gpu, cpu = (Kind(name, self.machine.corrections.find(name)) for name in names)
        return gpu, cpu

    @cached_property
    def _alone_names(self) -> tuple[str, str]:
        return self._name_kinds("", "")

    @cached_property
    def _split_names(self) -> tuple[str, str]:
        return self._name_kinds(" beside CPU", f" beside GPU, {self.problem.memory}")

    def _name_kinds(self, gpu: str, cpu: str) -> tuple[str, str]:
        side, problem = self.alone, self.problem
        count = len(side.members) if side is not None else 1
        device = f"{count} GPUs" if count > 1 else "GPU"
        resident = ", B resident" if problem.b_resident else ""
        bottleneck = side.name_bottleneck() if side is not None else ""
        return (
            f"{device}{gpu}, {problem.memory}{resident}: {bottleneck}",
            f"CPU{cpu}: {name_cpu_bottleneck(problem, self.machine.cpu)}",
        )

    def correct(self, prices: Prices) -> Prediction:
        """The seconds of both parts, corrected by the runs until now."""
        gpu, cpu = self.list_kinds(prices.f)
        return Prediction(
            gpu.factor.reported * prices.gpu_seconds, cpu.factor.reported * prices.cpu_seconds
        )

    def find_seconds(self, prices: Prices) -> float:
        """The seconds by which plans are compared: those of the longer part."""
        gpu, cpu = self.list_kinds(prices.f)
        cpu_seconds = cpu.factor.deciding * prices.cpu_seconds
        if prices.parts:
            cpu_seconds = _delay(cpu_seconds)
        return max(gpu.factor.deciding * prices.gpu_seconds, cpu_seconds)


def limit_split(alone_seconds: float, memory: Memory, further: int = 1) -> float:
    """Longest time for which further devices pay; it takes `alone_seconds` without them."""
    return alone_seconds * (1 - SPLIT_GAIN[memory]) ** further


def find_split(times: ProductTimes, limit_seconds: float) -> Prices | None:
    """The best split; None if not even a lower bound is within the limit.

    Bisection finds the row of tiles where both parts take equally long, with a lower bound of the
    GPUs' seconds. That row is priced, and the search repeated with the bound scaled to its price,
    until it comes to a row that is priced already.
    """
    side, m = times.in_split, times.problem.m
    tile_m, (gpu, cpu) = side.spec.tile.m, times.list_kinds(1)
    scale, priced = gpu.factor.deciding, dict[int, Prices]()

    def find_cpu(rows: int) -> float:
        return _delay(cpu.factor.deciding * times.find_cpu_seconds(m - rows))

    def find_total(rows: int) -> float:
        return max(scale * side.find_bound(rows), find_cpu(rows))

    while True:
        low, high = 0, divide_up(m, tile_m)
        while low < high:
            middle = (low + high) // 2
            rows = min(m, tile_m * middle)
            if rows and scale * side.find_bound(rows) >= find_cpu(rows):
                high = middle
            else:
                low = middle + 1
        near = [rows for rows in (tile_m * (low - 1), tile_m * low) if 0 < rows < m]
        rows = min(near, key=find_total, default=0)
        if not near or rows in priced or (not priced and find_total(rows) > limit_seconds):
            return min(priced.values(), key=times.find_seconds, default=None)
        priced[rows] = times.price(m - rows)
        scale = gpu.factor.deciding * priced[rows].gpu_seconds / side.find_bound(rows)


def _delay(cpu_seconds: float) -> float:
    """The seconds after which the CPU's part of a split may end."""
    return cpu_seconds + min(LATE_SHARE * cpu_seconds, MOST_LATE_SECONDS)
