"""Corrections: factors on predicted times, learned from earlier runs.

As in StarPU's performance models (Augonnet et al., 2011), the ratio of a run's measured to its
predicted time is a sample. It corrects products that take about as long on the same device: its own
product most, others less the further they are. A product far from all runs is not corrected
(`device_runs`).
"""

from dataclasses import dataclass, replace
from typing import Final, Protocol

from wavetrim.kernels.schedule.panels import PanelProblem
from wavetrim.kernels.schedule.schedule import Rates
from wavetrim.kernels.spec import KernelSpec
from wavetrim.scheduler.problem import GemmProblem

_TEAM: Final = " gpus, "
"""In the name of a device that is one of several."""

LEAST_SECONDS: Final = 1e-9
"""Least seconds of a class: its distances from others are logarithms."""


@dataclass(frozen=True, slots=True)
class RunClass:
    """Runs of one product by one part of a plan; they differ by noise only.

    Attributes:
        device: Device and kind of memory or element type. Runs of another device do not count.
        beside: The device that computes other rows at the same time; empty if there is none.
        bottleneck: What bounds the product: copies in, copies out, or a kernel; empty on the CPU.
        product: Shape and element type.
        seconds: Roughly predicted seconds of all rows, before any correction.
    """

    device: str = ""
    beside: str = ""
    bottleneck: str = ""
    product: str = ""
    seconds: float = 1.0

    def in_team(self, name: str, gpus: int) -> "RunClass":
        """The class of a GPU's runs beside others: it has other times than alone.

        Args:
            name: The GPU; "each" if all are of one model.
            gpus: Number of GPUs that share the product.
        """
        return replace(self, device=f"{name} of {gpus}{_TEAM}{self.device}")

    @property
    def is_in_team(self) -> bool:
        """Whether several GPUs share the product. No calibration runs such products."""
        return _TEAM in self.device

    @property
    def name(self) -> str:
        """The runs that it learns from, in words."""
        beside = f" beside a {self.beside}" if self.beside else ""
        bound = f", bound by {self.bottleneck}" if self.bottleneck else ""
        return f"{self.device}{beside}{bound}, about {self.seconds * 1e3:.2g} ms"


@dataclass(frozen=True, slots=True)
class Correction:
    """The factor of a class.

    Attributes:
        run_class: The class.
        factor: Measured over predicted seconds; 1.0 without runs.
        runs: Runs that the factor is from.
    """

    run_class: RunClass = RunClass()
    factor: float = 1.0
    runs: int = 0


UNCORRECTED: Final = Correction()


class Corrections(Protocol):
    """The corrections of one profile."""

    def find(self, run_class: RunClass) -> Correction:
        """The factor of a class."""

    def note(self, run_class: RunClass, predicted_seconds: float, measured_seconds: float) -> None:
        """Record a run: its uncorrected prediction, and its measured time."""

    def list_all(self) -> list[Correction]:
        """The classes that have runs, each with the lower quartile of its own runs' ratios."""


class NoCorrections:
    """No corrections; runs are not recorded."""

    def find(self, run_class: RunClass) -> Correction:
        """No correction."""
        return Correction(run_class)

    def note(self, run_class: RunClass, predicted_seconds: float, measured_seconds: float) -> None:
        """Do nothing."""

    def list_all(self) -> list[Correction]:
        """An empty list."""
        return []


NO_CORRECTIONS: Final = NoCorrections()


def classify_gpu_run(
    problem: GemmProblem, panels: PanelProblem, rates: Rates, spec: KernelSpec, *, shared: bool
) -> RunClass:
    """The class of a GPU part.

    Kernels are told apart only where they are the bottleneck.

    Args:
        problem: The product.
        panels: The same for the pipeline.
        rates: Rates of link and kernel, without a CPU part.
        spec: The kernel.
        shared: Whether the CPU computes other rows at the same time.
    """
    kernel = f"{spec.name} {spec.tile} {spec.dtype} on {panels.slots} slots"
    in_bytes = problem.m * problem.a_row_bytes + problem.copied_b_bytes
    bounds = {
        kernel: rates.find_kernel_seconds(panels, problem.m, problem.n, problem.k),
        "copies in": in_bytes / rates.in_bytes_per_second,
        "copies out": problem.m * problem.c_row_bytes / rates.out_bytes_per_second,
    }
    bottleneck = max(bounds, key=lambda name: bounds[name])
    return RunClass(
        device=_name_gpu(problem),
        beside="cpu" if shared else "",
        bottleneck=bottleneck,
        product=_name_product(problem),
        seconds=rates.call_seconds + bounds[bottleneck],
    )


def classify_cpu_run(problem: GemmProblem, seconds: float, *, shared: bool) -> RunClass:
    """The class of a CPU part.

    Args:
        problem: The product.
        seconds: Predicted seconds of all rows, uncorrected.
        shared: Whether a GPU computes other rows at the same time.
    """
    return RunClass(
        device=f"cpu in {problem.dtype}",
        beside=_name_gpu(problem) if shared else "",
        product=_name_product(problem),
        seconds=max(seconds, LEAST_SECONDS),
    )


def _name_gpu(problem: GemmProblem) -> str:
    """A GPU in words. Runs with a resident B are apart: they copy far less than others."""
    return f"gpu from {problem.memory} memory" + (", B resident" if problem.b_resident else "")


def _name_product(problem: GemmProblem) -> str:
    return f"{problem.m}x{problem.n}x{problem.k} {problem.dtype}"
