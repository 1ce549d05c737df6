"""Builds the curve of several GPUs that share a product, at the rates of links that are all busy.

Three ways to share it are compared: rows, of which each GPU fetches all of B; rows, while the GPUs
exchange parts of B; and columns, of which each GPU fetches all of A.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from wavetrim.kernels.schedule.schedule import Rates
from wavetrim.kernels.spec import KernelSpec
from wavetrim.scheduler.model.corrections import RunClass, classify_gpu_run
from wavetrim.scheduler.model.cpu import CpuShare
from wavetrim.scheduler.model.curves import build_gpu_curve
from wavetrim.scheduler.model.gpu_curve import GpuCurve
from wavetrim.scheduler.planning.team import (
    LONG_SECONDS,
    GpuSide,
    TeamCurve,
    find_even_part,
    list_members,
)
from wavetrim.scheduler.problem import GemmProblem, Memory
from wavetrim.scheduler.profile.joint import LinkRates, estimate_joint_links, share_links
from wavetrim.scheduler.profile.machine import MachineProfile

ALIKE: Final = 0.05
"""Most by which the rates of the links of GPUs that are alike differ; chosen."""

LEAST_GAIN: Final = 0.03
"""Share of the time that a less simple way must save: exchanging B, where GPUs wait for each other,
or dividing columns, whose rows are not adjacent in memory. Chosen."""

STEP_COMMANDS: Final = 9
"""Commands of a step that exchanges nothing: copies in and out, kernel, and their events."""

EXCHANGE_WEIGHT: Final = 2
"""How many of these the thread could enqueue in the time of one command of an exchange. Chosen: 3.3
and 1.6 µs with two, three and four H200s (0464296c), which the driver and not the GPU decides."""


def build_team_curve(
    problem: GemmProblem, gpus: Sequence[MachineProfile], spec: KernelSpec, sms: int | None
) -> TeamCurve:
    """The curve of several GPUs that divide rows and fetch all of B each, without a CPU part.

    Args:
        problem: The product.
        gpus: The profile of each GPU; the first knows the joint rates and the corrections.
        spec: The kernel, which all of them run.
        sms: Limit of multiprocessors on each; None for all.
    """
    even = all(_is_like(gpus[0], other, problem.memory) for other in gpus[1:])
    rows = find_even_part(problem.m, len(gpus), spec.tile.m) if even else problem.m
    members = _build_members(problem, replace(problem, m=rows), gpus, spec, sms)
    return TeamCurve(members, problem.m, even)


def choose_division(
    team: TeamCurve,
    problem: GemmProblem,
    gpus: Sequence[MachineProfile],
    spec: KernelSpec,
    sms: int | None,
) -> TeamCurve:
    """The fastest way for such a team: as it is, exchanging B, or dividing columns.

    It searches for the schedules of all three, so it is for the few kernels that are compared.
    """
    if not team.even:
        return team
    count = len(gpus)
    # A GPU without rows of C has no part in the product, so it fetches nothing for the others.
    if _can_exchange(problem, gpus) and all(team.divide(problem.m)):
        exchanging = _exchange_b(team, gpus[0].peer_gbytes_per_second * 1e9)
        # GPUs that exchange B are enqueued at once, as those of brief products.
        limit = min(LONG_SECONDS, (1 - LEAST_GAIN) * team.seconds(problem.m))
        # The lower bound first: it needs no search for a schedule.
        if exchanging.find_least_seconds(problem.m) < limit > exchanging.seconds(problem.m):
            team = exchanging
    columns = find_even_part(problem.n, count, spec.tile.n)
    # Where A is as large as B, dividing columns copies no less; and a resident B is whole.
    is_wide = problem.m < problem.n and not problem.b_resident
    if is_wide and columns * (count - 1) < problem.n:
        members = _build_members(problem, replace(problem, n=columns), gpus, spec, sms)
        starts = range(0, problem.n, columns)
        ranges = tuple(range(start, min(start + columns, problem.n)) for start in starts)
        by_columns = TeamCurve(members, problem.m, team.even, columns=ranges)
        limit = (1 - LEAST_GAIN) * team.seconds(problem.m)
        if by_columns.find_least_seconds(problem.m) < limit > by_columns.seconds(problem.m):
            return by_columns
    return team


def _build_members(
    problem: GemmProblem,
    part: GemmProblem,
    gpus: Sequence[MachineProfile],
    spec: KernelSpec,
    sms: int | None,
) -> tuple[GpuCurve, ...]:
    """The curve of each GPU for its part, at the rates that it has beside the others."""
    curves = [_build_member(part, gpu, spec, sms) for gpu in gpus]
    members = []
    for gpu, curve, rates in zip(
        gpus, curves, _find_joint_rates(problem, gpus, curves), strict=True
    ):
        run_class = classify_gpu_run(problem, curve.problem, curve.rates, spec, shared=False)
        run_class = _name_team(run_class, gpus, gpu)
        correction = gpus[0].corrections.find(run_class)
        members.append(replace(curve, rates=rates, correction=correction))
    return _merge_equal(members)


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
            curve.slow_by_cpu_part(
                copy_stretch=share.link_stretch,
                start_seconds=share.start_seconds,
                correction=gpus[0].corrections.find(run_class),
            )
        )
    return (
        replace(side, members=_merge_equal(members)) if isinstance(side, TeamCurve) else members[0]
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


def _merge_equal(members: Sequence[GpuCurve]) -> tuple[GpuCurve, ...]:
    """The same curves; those that are equal are one object, so that each is asked only once."""
    found: dict[GpuCurve, GpuCurve] = {}
    return tuple(found.setdefault(member, member) for member in members)


def _name_team(
    run_class: RunClass, gpus: Sequence[MachineProfile], gpu: MachineProfile
) -> RunClass:
    """The class of a member's runs."""
    name = "each" if all(one.device == gpu.device for one in gpus) else gpu.device
    return run_class.in_team(name, len(gpus))


def _can_exchange(problem: GemmProblem, gpus: Sequence[MachineProfile]) -> bool:
    """Whether GPUs may exchange parts of B.

    From pageable memory each fetches all of B. A resident B is not copied at all.
    """
    is_copied = problem.memory == "pinned" and not problem.b_resident
    return is_copied and gpus[0].peer_gbytes_per_second > 0


def _exchange_b(team: TeamCurve, peer_bytes_per_second: float) -> TeamCurve:
    """The same GPUs while they exchange parts of B."""
    peers = len(team.members) - 1
    # The own piece has an event; each other one a wait and a copy; all of them an event and a wait.
    commands = STEP_COMMANDS + EXCHANGE_WEIGHT * (3 + 2 * peers)
    members = [
        replace(
            one,
            rates=replace(
                one.rates,
                peers=peers,
                peer_bytes_per_second=peer_bytes_per_second,
                enqueue_seconds=commands / STEP_COMMANDS * one.rates.enqueue_seconds,
            ),
        )
        for one in team.members
    ]
    return replace(team, members=_merge_equal(members), exchanges=True)


def _find_joint_rates(
    problem: GemmProblem, gpus: Sequence[MachineProfile], curves: Sequence[GpuCurve]
) -> list[Rates]:
    """The rates of each GPU while all of them copy, and one thread enqueues for all."""
    rates = [curve.rates for curve in curves]
    links = [
        LinkRates(one.in_bytes_per_second, one.out_bytes_per_second, one.duplex) for one in rates
    ]
    measured = gpus[0].find_joint(problem.memory, len(gpus))
    joint = measured or estimate_joint_links(problem.memory, links)
    return [
        replace(
            one,
            in_bytes_per_second=link.in_bytes_per_second,
            out_bytes_per_second=link.out_bytes_per_second,
            duplex=link.duplex,
            enqueue_seconds=len(gpus) * one.enqueue_seconds,
            call_seconds=one.call_seconds + joint.further_seconds,
        )
        for one, link in zip(rates, share_links(joint, links), strict=True)
    ]
