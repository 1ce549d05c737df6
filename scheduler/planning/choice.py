"""The choice of a plan: plans on one GPU and on more are compared, each with its best kernel and F.

The fastest by predicted seconds is chosen. Pure: no array or device is touched.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from wavetrim.scheduler.errors import PlanError
from wavetrim.scheduler.options import NO_OPTIONS, PlanOptions
from wavetrim.scheduler.planning.candidates import find_positions
from wavetrim.scheduler.planning.kernel_choice import choose_plan_on
from wavetrim.scheduler.planning.lanes import CPU, Lane
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.planning.residency import check_residence
from wavetrim.scheduler.planning.split import limit_split
from wavetrim.scheduler.planning.team import find_next_count
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.machine import MachineProfile


def choose_plan(
    problem: GemmProblem,
    profile: MachineProfile,
    options: PlanOptions = NO_OPTIONS,
    lane: Lane | None = None,
) -> Plan:
    """Choose kernel, GPUs and F for a product on a machine.

    More GPUs must promise a gain, as a CPU part must.

    Args:
        problem: The product.
        profile: The machine.
        options: Options of the plan.
        lane: Devices that may be used; None for all.

    Raises:
        PlanError: An option cannot be met: the kernel or tile is unknown, cannot compute this
            product here or has another accuracy, f is outside 0…M, kernels cannot be held to
            `sms` multiprocessors, one of `devices` is not there, or B is too large to stay.
    """
    f = options.f
    if f != "auto" and not 0 <= f <= problem.m:
        raise PlanError("f", f, f'"auto" or 0…{problem.m}, the rows of C')
    if problem.is_empty:
        return _choose_for_nothing(problem, profile, options, lane)
    positions = find_positions(profile, options.devices)
    if lane is not None:
        positions = tuple(position for position in positions if position in lane)
        if CPU not in lane and f == "auto":
            options = replace(options, f=0)
    if problem.b_resident:
        check_residence(problem, [profile.gpus[position] for position in positions])
    one, positions = _choose_first(problem, profile, options, positions)
    return _choose_gpus(one, options, positions)


def _choose_for_nothing(
    problem: GemmProblem, profile: MachineProfile, options: PlanOptions, lane: Lane | None
) -> Plan:
    """The plan of an empty product, on the CPU; options are refused as those of the smallest."""
    m, n, k = (max(1, size) for size in (problem.m, problem.n, problem.k))
    least = replace(problem, m=m, n=n, k=k)
    choose_plan(least, profile, replace(options, f="auto"), lane)
    return choose_plan(least, profile, PlanOptions(devices="none"))


def _choose_first(
    problem: GemmProblem, profile: MachineProfile, options: PlanOptions, positions: Sequence[int]
) -> tuple[Plan, tuple[int, ...]]:
    """The plan on the GPU that is fastest at the product, and all positions, the fastest first.

    Of GPUs that differ, which is faster depends on the element type: one of each model is tried.
    """
    models: dict[object, int] = {}
    for position in positions:
        models.setdefault(profile.gpus[position].gpu, position)
    if len(models) <= 1:
        return choose_plan_on(problem, profile, options, positions[:1]), tuple(positions)
    plans: dict[object, Plan] = {}
    refusals: list[PlanError] = []
    for model, position in models.items():
        try:
            plans[model] = choose_plan_on(problem, profile, options, (position,))
        except PlanError as error:
            refusals.append(error)
    if not plans:
        raise refusals[0]

    def find_seconds(position: int) -> float:
        plan = plans.get(profile.gpus[position].gpu)
        return math.inf if plan is None else plan.gpu_only_seconds or math.inf

    first, *others = sorted(positions, key=find_seconds)
    return plans[profile.gpus[first].gpu], (first, *others)


def _choose_gpus(one: Plan, options: PlanOptions, positions: Sequence[int]) -> Plan:
    """The best plan on some of the GPUs, the first of them. Each further one must promise a gain.

    Args:
        one: The plan on one.
        options: Options of the plan.
        positions: Positions of the GPUs among those of the machine.
    """
    problem, best, count = one.problem, one, 1
    seconds, most = {1: _get_total_seconds(one)}, len(positions)
    while tried := find_next_count(seconds, count, most, beside_cpu=best.f > 0):
        gpus = positions[:tried]
        plan = choose_plan_on(problem, one.profile, options, gpus, spec=best.spec)
        uses_all = len(plan.gpu_parts) == tried
        seconds[tried] = _get_total_seconds(plan) if uses_all else math.inf
        fewer, more = sorted((count, tried))
        gains = seconds[more] <= limit_split(seconds[fewer], problem.memory, more - fewer)
        if gains == (tried > count):
            best, count = replace(plan, one_gpu_seconds=one.gpu_only_seconds), tried
    return best


def _get_total_seconds(plan: Plan) -> float:
    return plan.predicted.total_seconds
