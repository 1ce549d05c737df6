"""The candidates of a product, ranked by time; the schedules of the fastest are compared."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from wavetrim.kernels.spec import KernelSpec
from wavetrim.scheduler.model.curves import build_gpu_curve
from wavetrim.scheduler.planning.candidates import Candidate
from wavetrim.scheduler.planning.team import GpuSide, TeamCurve, list_members
from wavetrim.scheduler.planning.team_curves import build_team_curve, choose_division
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.machine import MachineProfile

CONSIDERED: Final = 2
"""Kernels whose schedules are compared; chosen. Each takes the planner some milliseconds, and a
kernel that cannot be faster by itself than two others seldom has the faster schedule."""


@dataclass(frozen=True, slots=True)
class RankedKernel:
    """A candidate with its curve for one product.

    Attributes:
        spec: The kernel.
        curve: Rows → seconds without a CPU part, on one GPU or on several at once.
        gpus: The profile of each GPU.
    """

    spec: KernelSpec
    curve: GpuSide
    gpus: tuple[MachineProfile, ...]

    @property
    def alone_seconds(self) -> float:
        """Seconds for all of the product's rows."""
        return self.curve.seconds(self.curve.m)

    @property
    def kernel_seconds(self) -> float:
        """Seconds for all rows without copies, corrected and rounded."""
        return _round(self._factor * self.curve.kernel_seconds(self.curve.m))

    @property
    def least_kernel_seconds(self) -> float:
        """Lower bound of that in all schedules, of one launch or of several."""
        return _round(self._factor * self.curve.find_least_kernel_seconds(self.curve.m))

    @property
    def uncorrected_seconds(self) -> float:
        """Seconds for all rows without corrections, rounded."""
        return _round(self.alone_seconds / self._factor)

    @property
    def _factor(self) -> float:
        """The factor from earlier runs; of several GPUs the largest."""
        return max(member.correction.factor for member in list_members(self.curve))


def rank_kernels(
    problem: GemmProblem,
    profile: MachineProfile,
    candidates: Sequence[Candidate],
    sms: int | None,
    *,
    beside: Sequence[MachineProfile] = (),
) -> list[RankedKernel]:
    """The fastest kernels by their own time for all rows, without copies.

    With copies, all kernels take the same time on a slow link. Of equally fast kernels the
    library's comes first: ours must be faster to be preferred. A kernel that short launches may
    make faster than one of these (cuBLAS) is added.

    Args:
        problem: The product.
        profile: The machine's first GPU.
        candidates: The kernels to rank.
        sms: Limit of multiprocessors; None for all.
        beside: Other GPUs that share the rows, on which all candidates run.
    """
    gpus = (profile, *beside)
    kernels = []
    for one in candidates:
        curve: GpuSide
        if beside:
            curve = build_team_curve(problem, gpus, one.spec, sms)
        else:
            curve = build_gpu_curve(problem, profile, one.spec, one.model, sms=sms)
        kernels.append(RankedKernel(one.spec, curve, gpus))

    # To divide rows among GPUs that differ is a search for each kernel.
    differ = any(isinstance(one.curve, TeamCurve) and not one.curve.even for one in kernels)
    kernels.sort(key=lambda one: (one.kernel_seconds, one.spec.source is not None))
    considered = 1 if differ else CONSIDERED
    fastest, others = kernels[:considered], kernels[considered:]
    fastest += [
        one
        for one in others
        if one.spec.splits_short and one.least_kernel_seconds < fastest[-1].kernel_seconds
    ]
    return [
        replace(one, curve=choose_division(one.curve, problem, gpus, one.spec, sms))
        if isinstance(one.curve, TeamCurve)
        else one
        for one in fastest
    ]


def _round(seconds: float) -> float:
    """Seconds in nine digits: times that differ by errors of rounding are equal."""
    return float(f"{seconds:.9g}")
