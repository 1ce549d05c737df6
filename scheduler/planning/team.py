"""The curve of several GPUs that share the rows of a product: a team.

Each GPU has a curve of its own, at the rates that its link has while all links are busy. A team
takes as long as its slowest member, with the rows divided as well as they can be.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, TypeAlias

from wavetrim.kernels.catalog import KernelSpec
from wavetrim.kernels.pipeline.schedule import Rates
from wavetrim.kernels.pipeline.steps import Cut
from wavetrim.scheduler.model.corrections import RunClass, classify_gpu_run
from wavetrim.scheduler.model.cpu import CpuShare
from wavetrim.scheduler.model.curves import build_gpu_curve
from wavetrim.scheduler.model.gpu_curve import GpuCurve
from wavetrim.scheduler.model.waves import divide_up
from wavetrim.scheduler.planning.split import split_rows
from wavetrim.scheduler.problem import GemmProblem, Memory
from wavetrim.scheduler.profile.joint import LinkRates, estimate_joint_links, share_links
from wavetrim.scheduler.profile.machine import MachineProfile

ALIKE: Final = 0.05
"""Most by which the rates of the links of GPUs that are alike differ; chosen."""

EXCHANGE_STEP_SECONDS: Final = 1e-4
"""Time of the interpreter's lock for a step of a GPU that exchanges parts of B; chosen."""

EXCHANGE_SECONDS: Final = 1e-3
"""Time until all GPUs have told what they need and the first parts have come: without it in the
model 22 products took 0.9 ms longer, in the median (two H100s, 32 cores; b9f573b)."""

WAKE_SECONDS: Final = 1e-4
"""Time until the threads of a team's GPUs are awake; chosen. One GPU works in the calling thread.
"""


@dataclass(frozen=True, slots=True)
class TeamCurve:
    """Rows of C → seconds on several GPUs.

    Attributes:
        members: A curve for each GPU: if all are alike, for an even part of the rows.
        m: Rows of C.
        even: Whether all GPUs are alike, so that they take equal rows.
        exchanges: Whether they exchange parts of B, so that it crosses the links once.
    """

    members: tuple[GpuCurve, ...]
    m: int
    even: bool
    exchanges: bool = False

    @property
    def copying_share(self) -> float:
        """Share of the time in which copies are under way, 0…1: that of the busiest member."""
        return max(member.copying_share for member in self.members)

    def divide(self, rows: int) -> tuple[int, ...]:
        """Rows of each member, all of them from the first one to the last in one piece."""
        if not self.even:
            return split_rows(rows, self.members)
        # Whole tiles: rows up to the end of a tile take no more time.
        tile = self.members[0].problem.tile_m
        part = divide_up(divide_up(rows, len(self.members)), tile) * tile
        before = (number * part for number in range(len(self.members)))
        return tuple(max(0, min(part, rows - taken)) for taken in before)

    def seconds(self, rows: int) -> float:
        """Seconds for `rows` rows: 0 without rows, and never less for more rows."""
        if self.even:
            part = self.divide(rows)[0]
            different = {id(member): member for member in self.members}
            return max(member.seconds(part) for member in different.values())
        shares = zip(self.members, self.divide(rows), strict=True)
        return max(member.seconds(share) for member, share in shares)

    def estimate_rows(self, seconds: float) -> float:
        """Rough number of rows that take `seconds`."""
        return sum(member.estimate_rows(seconds) for member in self.members)

    def kernel_seconds(self, rows: int) -> float:
        """Seconds of the kernels alone, in one launch on each GPU."""
        shares = zip(self.members, self.divide(rows), strict=True)
        return max(member.kernel_seconds(share) for member, share in shares)

    def find_least_seconds(self, rows: int) -> float:
        """Lower bound for all schedules."""
        shares = zip(self.members, self.divide(rows), strict=True)
        least = [member.find_least_seconds(share) for member, share in shares]
        # Members that differ may have other rows in the best schedules.
        return max(least) if self.even else min(least)


GpuSide: TypeAlias = GpuCurve | TeamCurve
"""The GPUs of a plan: one, or a team."""


def list_members(side: GpuSide) -> tuple[GpuCurve, ...]:
    """The curve of each GPU."""
    return side.members if isinstance(side, TeamCurve) else (side,)


@dataclass(frozen=True)
class GpuPart:
    """The rows of one GPU in a plan.

    Attributes:
        position: Its position among the GPUs of the plan's profile.
        rows: Its rows of C.
        curve: Rows → seconds on it in this plan.
    """

    position: int
    rows: range
    curve: GpuCurve

    @property
    def seconds(self) -> float:
        """Predicted seconds."""
        return self.curve.seconds(len(self.rows))

    @property
    def waves(self) -> int:
        """Waves of its kernels."""
        return self.curve.grid.count_waves(len(self.rows))

    @cached_property
    def cut(self) -> Cut:
        """The cut of its rows into steps."""
        return self.curve.find_cut(len(self.rows))


def list_parts(
    side: GpuSide, positions: Sequence[int], shares: Sequence[int]
) -> tuple[GpuPart, ...]:
    """The parts of the GPUs that have rows, from the first row on.

    Args:
        side: The curve of one GPU or of a team.
        positions: Positions of the GPUs among those of the profile.
        shares: Rows of each.
    """
    parts: list[GpuPart] = []
    start = 0
    for position, share, curve in zip(positions, shares, list_members(side), strict=True):
        if share:
            parts.append(GpuPart(position, range(start, start + share), curve))
            start += share
    return tuple(parts)


def build_team_curve(
    problem: GemmProblem, gpus: Sequence[MachineProfile], spec: KernelSpec, sms: int | None = None
) -> TeamCurve:
    """The curve of several GPUs at once, without a CPU part.

    Args:
        problem: The product.
        gpus: The profile of each GPU; the first knows the joint rates and the corrections.
        spec: The kernel, which all of them run.
        sms: Limit of multiprocessors on each; None for all.
    """
    even = all(_is_like(gpus[0], other, problem.memory) for other in gpus[1:])
    most_rows = problem.m
    if even:
        tiles = divide_up(divide_up(problem.m, len(gpus)), spec.tile.m)
        most_rows = min(problem.m, tiles * spec.tile.m)
    curves = [_build_member(replace(problem, m=most_rows), gpu, spec, sms) for gpu in gpus]
    members = []
    shared_rates = _share_rates(problem, gpus, curves)
    for gpu, curve, rates in zip(gpus, curves, shared_rates, strict=True):
        run_class = classify_gpu_run(problem, curve.problem, curve.rates, spec, shared=False)
        run_class = _name_team(run_class, gpus, gpu)
        correction = gpus[0].corrections.find(run_class)
        members.append(replace(curve, rates=rates, correction=correction))
    apart = TeamCurve(_share_equal(members), problem.m, even)
    b_share = _find_b_share(problem, gpus, shared_rates) if even else 1.0
    if b_share == 1.0:
        return apart
    exchanging = _exchange(apart, b_share)
    return min(apart, exchanging, key=lambda team: team.seconds(problem.m))


def share_with_cpu(
    side: GpuSide,
    problem: GemmProblem,
    gpus: Sequence[MachineProfile],
    spec: KernelSpec,
    share: CpuShare,
) -> GpuSide:
    """The curve while the CPU computes other rows.

    Args:
        side: The curve without a CPU part, of one GPU or of a team.
        problem: The product.
        gpus: The profile of each GPU.
        spec: The kernel.
        share: How the CPU is shared.
    """
    members = []
    for gpu, curve in zip(gpus, list_members(side), strict=True):
        run_class = classify_gpu_run(problem, curve.problem, curve.rates, spec, shared=True)
        if len(gpus) > 1:
            run_class = _name_team(run_class, gpus, gpu)
        members.append(
            curve.disturb(
                copy_stretch=share.link_stretch,
                start_seconds=share.start_seconds,
                correction=gpus[0].corrections.find(run_class),
            )
        )
    return (
        replace(side, members=_share_equal(members)) if isinstance(side, TeamCurve) else members[0]
    )


def _build_member(
    problem: GemmProblem, gpu: MachineProfile, spec: KernelSpec, sms: int | None
) -> GpuCurve:
    model = gpu.find_kernel_model(spec)
    assert model is not None, "candidates run on all GPUs of a team"
    return build_gpu_curve(problem, gpu, spec, model, sms=sms)


def _is_like(gpu: MachineProfile, other: MachineProfile, memory: Memory) -> bool:
    """Whether two GPUs are of one model, with links about as fast."""
    link, other_link = gpu.find_link(memory), other.find_link(memory)
    assert link is not None, "a GPU is at the end of a link"
    assert other_link is not None, "a GPU is at the end of a link"
    rates = (
        (link.in_gbytes_per_second, other_link.in_gbytes_per_second),
        (link.out_gbytes_per_second, other_link.out_gbytes_per_second),
    )
    return gpu.gpu == other.gpu and all(abs(b - a) <= ALIKE * a for a, b in rates)


def _share_equal(members: Sequence[GpuCurve]) -> tuple[GpuCurve, ...]:
    """The same curves; those that are equal are one object, so that each is asked only once."""
    found: dict[GpuCurve, GpuCurve] = {}
    return tuple(found.setdefault(member, member) for member in members)


def _name_team(
    run_class: RunClass, gpus: Sequence[MachineProfile], gpu: MachineProfile
) -> RunClass:
    """The class of a member's runs: beside others a GPU has other times than alone."""
    name = "each" if all(one.device == gpu.device for one in gpus) else gpu.device
    return replace(run_class, device=f"{name} of {len(gpus)} gpus, {run_class.device}")


def _exchange(team: TeamCurve, b_share: float) -> TeamCurve:
    """The same GPUs while they exchange parts of B, for which Python enqueues all steps."""
    enqueue_seconds = len(team.members) * EXCHANGE_STEP_SECONDS
    members = [
        replace(
            one,
            rates=replace(
                one.rates,
                b_share=b_share,
                call_seconds=one.rates.call_seconds + EXCHANGE_SECONDS,
                enqueue_seconds=max(one.rates.enqueue_seconds, enqueue_seconds),
            ),
        )
        for one in team.members
    ]
    return replace(team, members=_share_equal(members), exchanges=True)


def _find_b_share(
    problem: GemmProblem, gpus: Sequence[MachineProfile], rates: Sequence[Rates]
) -> float:
    """Time to copy in B if the GPUs exchange parts of it, over that of copying all of it; or 1.

    Each GPU copies its part over its link and the others' parts from their memory, at once. From
    pageable memory each fetches all of B, as do GPUs that differ, which would cut B differently. A
    resident B is not copied at all.
    """
    count, peer_rate = len(gpus), gpus[0].peer_gbytes_per_second * 1e9
    if problem.memory != "pinned" or problem.b_resident or not peer_rate:
        return 1.0
    link_rate = rates[0].in_bytes_per_second
    return min(1.0, max(1 / count, (count - 1) / count * link_rate / peer_rate))


def _share_rates(
    problem: GemmProblem, gpus: Sequence[MachineProfile], curves: Sequence[GpuCurve]
) -> list[Rates]:
    """The rates of each GPU while all of them copy, and take turns at the interpreter's lock."""
    rates = [curve.rates for curve in curves]
    links = [
        LinkRates(one.in_bytes_per_second, one.out_bytes_per_second, one.duplex) for one in rates
    ]
    measured = gpus[0].find_joint(problem.memory, len(gpus))
    shared = share_links(measured or estimate_joint_links(problem.memory, links), links)
    return [
        replace(
            one,
            in_bytes_per_second=link.in_bytes_per_second,
            out_bytes_per_second=link.out_bytes_per_second,
            duplex=link.duplex,
            enqueue_seconds=len(gpus) * one.enqueue_seconds,
            call_seconds=one.call_seconds + WAKE_SECONDS,
        )
        for one, link in zip(rates, shared, strict=True)
    ]
