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
from wavetrim.scheduler.planning.team import GpuSide, TeamCurve, find_even_part, list_members
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

COLUMNS_LEAD: Final = 0.03
"""Share of the time by which dividing columns must be faster; chosen. Rows are adjacent in
memory."""

WAKE_SECONDS: Final = 1e-4
"""Time until the threads of a team's GPUs are awake; chosen. One GPU works in the calling thread.
"""


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
    b_share = _find_b_share(problem, gpus, team.members[0].rates)
    if b_share < 1.0:
        exchanging = _exchange_b(team, b_share)
        team = min(team, exchanging, key=lambda one: one.seconds(problem.m))
    columns = find_even_part(problem.n, count, spec.tile.n)
    # Where A is as large as B, dividing columns copies no less; and a resident B is whole.
    is_wide = problem.m < problem.n and not problem.b_resident
    if is_wide and columns * (count - 1) < problem.n:
        members = _build_members(problem, replace(problem, n=columns), gpus, spec, sms)
        starts = range(0, problem.n, columns)
        ranges = tuple(range(start, min(start + columns, problem.n)) for start in starts)
        by_columns = TeamCurve(members, problem.m, team.even, columns=ranges)
        limit = (1 - COLUMNS_LEAD) * team.seconds(problem.m)
        # The lower bound first: it needs no search for a schedule.
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
    """The class of a member's runs: beside others a GPU has other times than alone."""
    name = "each" if all(one.device == gpu.device for one in gpus) else gpu.device
    return replace(run_class, device=f"{name} of {len(gpus)} gpus, {run_class.device}")


def _exchange_b(team: TeamCurve, b_share: float) -> TeamCurve:
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
    return replace(team, members=_merge_equal(members), exchanges=True)


def _find_b_share(problem: GemmProblem, gpus: Sequence[MachineProfile], rates: Rates) -> float:
    """Time to copy in B if the GPUs exchange parts of it, over that of copying all of it; or 1.

    Each GPU copies its part over its link and the others' parts from their memory, at once. From
    pageable memory each fetches all of B, as do GPUs that differ, which would cut B differently. A
    resident B is not copied at all.
    """
    count, peer_rate = len(gpus), gpus[0].peer_gbytes_per_second * 1e9
    if problem.memory != "pinned" or problem.b_resident or not peer_rate:
        return 1.0
    link_rate = rates.in_bytes_per_second
    return min(1.0, max(1 / count, (count - 1) / count * link_rate / peer_rate))


def _find_joint_rates(
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
