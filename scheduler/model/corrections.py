"""Corrections: factors on predicted times, learned from earlier runs of the same class.

As in StarPU's performance models (Augonnet et al., 2011), the ratio of a run's measured to its
predicted time is a sample of the run's class. A class is a path from wide to narrow: device and
memory, then size, then kernel and bottleneck. Its factor is the median of the narrowest class,
drawn towards those of the wider ones, which weigh as much as `PRIOR_RUNS` runs.
"""

import math
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from wavetrim.kernels.catalog import KernelSpec
from wavetrim.kernels.pipeline.panels import PanelProblem
from wavetrim.kernels.pipeline.schedule import Rates
from wavetrim.scheduler.problem import GemmProblem

RunClass: TypeAlias = tuple[str, ...]
"""A path of classes, from wide to narrow."""

PRIOR_RUNS: Final = 2
"""Weight of the wider class's factor, in runs of the narrower class; chosen. With 1 to 3 the error
on 216 products of an H200 at 0e5a6d6 is the same within 0.4 points."""


@dataclass(frozen=True, slots=True)
class Correction:
    """The factor of a class.

    Attributes:
        run_class: The class.
        factor: Measured over predicted seconds; 1.0 without runs.
        runs: Runs of the narrowest class that has any.
    """

    run_class: RunClass = ()
    factor: float = 1.0
    runs: int = 0


UNCORRECTED: Final = Correction()


class Corrections(Protocol):
    """The corrections of one profile."""

    def find(self, run_class: RunClass) -> Correction:
        """The factor of a class."""

    def has_run(self, run_class: RunClass) -> bool:
        """Whether a product of the narrowest class has run."""

    def note(self, run_class: RunClass, predicted_seconds: float, measured_seconds: float) -> None:
        """Record a run: its uncorrected prediction, and its measured time."""

    def list_all(self) -> list[Correction]:
        """The factors of all classes that have runs; others have that of the one around them."""


class NoCorrections:
    """No corrections; runs are not recorded."""

    def find(self, run_class: RunClass) -> Correction:
        """No correction."""
        return Correction(run_class)

    def has_run(self, run_class: RunClass) -> bool:
        """False."""
        del run_class
        return False

    def note(self, run_class: RunClass, predicted_seconds: float, measured_seconds: float) -> None:
        """Do nothing."""

    def list_all(self) -> list[Correction]:
        """None."""
        return []


NO_CORRECTIONS: Final = NoCorrections()


def estimate_factor(samples: list[tuple[int, float]]) -> float:
    """The factor of a path of classes.

    Args:
        samples: Runs and the median of their log ratios, from the widest class to the narrowest.
    """
    estimate = 0.0
    for runs, median in samples:
        estimate = (runs * median + PRIOR_RUNS * estimate) / (runs + PRIOR_RUNS)
    return math.exp(estimate)


def classify_gpu_run(
    problem: GemmProblem, panels: PanelProblem, rates: Rates, spec: KernelSpec, *, shared: bool
) -> RunClass:
    """The class of a GPU part.

    Args:
        problem: The product.
        panels: The same for the pipeline.
        rates: Rates of link and kernel.
        spec: The kernel.
        shared: Whether the CPU computes other rows at the same time.
    """
    device = f"gpu {'beside a cpu ' if shared else ''}from {problem.memory} memory"
    bounds = {
        "kernel": rates.find_kernel_seconds(panels, problem.m, problem.n, max(1, problem.k)),
        "in": (problem.m * problem.a_row_bytes + problem.b_bytes) / rates.in_bytes_per_second,
        "out": problem.m * problem.c_row_bytes / rates.out_bytes_per_second,
    }
    bottleneck = max(bounds, key=lambda name: bounds[name])
    kernel = f"{spec.name} {spec.tile} {spec.dtype} on {panels.slots} slots"
    return device, _name_size(problem), f"{kernel}, bound by {bottleneck}"


def classify_cpu_run(problem: GemmProblem, *, shared: bool) -> RunClass:
    """The class of a CPU part.

    Args:
        problem: The product.
        shared: Whether a GPU computes other rows at the same time.
    """
    device = f"cpu beside a gpu from {problem.memory} memory" if shared else "cpu"
    device = f"{device} in {problem.dtype}"
    shortest = min(problem.m, problem.n, problem.k)
    return (
        device,
        _name_size(problem),
        f"shortest side 2^{shortest.bit_length() - 1}",
    )


def _name_size(problem: GemmProblem) -> str:
    """The bytes of all three matrices, to a power of four."""
    moved_bytes = problem.m * (problem.a_row_bytes + problem.c_row_bytes) + problem.b_bytes
    return f"about 4^{round(math.log2(moved_bytes) / 2)} bytes"
