"""The kernels that fit a product, by the seconds they take for all of its rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from wavetrim.kernels.catalog import KernelSpec
from wavetrim.scheduler.model.curves import build_gpu_curve
from wavetrim.scheduler.model.gpu_curve import GpuCurve
from wavetrim.scheduler.planning.candidates import Candidate
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.machine import MachineProfile

CONSIDERED: Final = 2
"""Kernels whose schedules are looked at. Each takes the planner some milliseconds, and a kernel
that is slower by itself than two others seldom has the faster schedule."""


@dataclass(frozen=True, slots=True)
class RankedKernel:
    """A candidate with its curve for one product.

    Attributes:
        spec: The kernel.
        curve: Rows → seconds with the machine to itself.
    """

    spec: KernelSpec
    curve: GpuCurve

    @property
    def alone_seconds(self) -> float:
        """Seconds for all of the product's rows."""
        return self.curve.seconds(self.curve.problem.m)


def rank_kernels(
    problem: GemmProblem, profile: MachineProfile, candidates: Sequence[Candidate], sms: int | None
) -> list[RankedKernel]:
    """The kernels by the seconds they take for all rows, the fastest first.

    Behind a slow link every kernel ends at the same time; among equals the faster one is wanted.
    Of equally fast ones the library's is: ours must be faster to be preferred.

    Args:
        problem: The product.
        profile: The machine.
        candidates: The kernels that fit.
        sms: Multiprocessors that they are held to; None for all.
    """
    kernels = []
    for one in candidates:
        curve = build_gpu_curve(problem, profile, one, sms=sms)
        kernels.append(RankedKernel(one.spec, curve))

    def rank(kernel: RankedKernel) -> tuple[float, bool]:
        seconds = kernel.curve.correction.factor * kernel.curve.kernel_seconds(problem.m)
        return seconds, kernel.spec.accuracy != "library"

    return sorted(kernels, key=rank)[:CONSIDERED]
