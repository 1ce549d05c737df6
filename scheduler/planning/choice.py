"""The choice of a plan: the CPU alone, GPUs alone, or a split; on one GPU or on several.

In the order in which it is decided: `candidates` (kernels), `gpu_rows` and `cpu_rows` (times of
rows), `split` (F), and here: the fastest by predicted seconds. A split must promise its gain over
the better single device, and each further GPU as much. Pure: no array or device is touched.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from wavetrim.kernels.spec import KernelSpec
from wavetrim.scheduler.errors import PlanError
from wavetrim.scheduler.options import NO_OPTIONS, PlanOptions
from wavetrim.scheduler.planning.candidates import (
    explain_no_kernel,
    find_candidates,
    find_positions,
)
from wavetrim.scheduler.planning.device_sets import CPU, DeviceSet
from wavetrim.scheduler.planning.gpu_rows import GpuSide, build_member
from wavetrim.scheduler.planning.plan import Plan, make_plan
from wavetrim.scheduler.planning.residency import check_residence
from wavetrim.scheduler.planning.split import (
    ProductTimes,
    find_split,
    limit_split,
)
from wavetrim.scheduler.planning.team import choose_team
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.machine import MachineProfile


def choose_plan(
    problem: GemmProblem,
    profile: MachineProfile,
    options: PlanOptions = NO_OPTIONS,
    device_set: DeviceSet | None = None,
) -> Plan:
    """Choose kernel, GPUs and F for a product on a machine.

    Args:
        problem: The product.
        profile: The machine.
        options: Options of the plan.
        device_set: Devices that may be used; None for all.

    Raises:
        PlanError: An option cannot be met: the kernel or tile is unknown, cannot compute this
            product here or has another accuracy, f is outside 0…M, kernels cannot be limited
            to `sms` multiprocessors, one of `devices` is not there, or B is too large to stay.
    """
    f = options.f
    if f != "auto" and not 0 <= f <= problem.m:
        raise PlanError("f", f, f'"auto" or 0…{problem.m}, the rows of C')
    if problem.is_empty:
        return _choose_for_nothing(problem, profile, options, device_set)
    positions = find_positions(profile, options.devices)
    if device_set is not None:
        positions = tuple(position for position in positions if position in device_set)
        if CPU not in device_set and f == "auto":
            options = replace(options, f=0)
    if problem.b_resident:
        check_residence(problem, [profile.gpus[position] for position in positions])
    one, positions = _choose_first(problem, profile, options, positions)
    return _choose_gpus(one, options, positions)


def _choose_for_nothing(
    problem: GemmProblem,
    profile: MachineProfile,
    options: PlanOptions,
    device_set: DeviceSet | None,
) -> Plan:
    """The plan of an empty product, on the CPU. Options are checked as for the smallest product."""
    m, n, k = (max(1, size) for size in (problem.m, problem.n, problem.k))
    least = replace(problem, m=m, n=n, k=k)
    choose_plan(least, profile, replace(options, f="auto"), device_set)
    return choose_plan(least, profile, PlanOptions(devices="none"))


def _choose_first(
    problem: GemmProblem, machine: MachineProfile, options: PlanOptions, positions: Sequence[int]
) -> tuple[Plan, tuple[int, ...]]:
    """The plan on the fastest GPU, and all positions, the fastest first.

    Which of different GPUs is the fastest depends on the product: one of each model is tried.
    """
    if not positions:
        return choose_plan_on(problem, machine, options, ()), ()
    models: dict[object, int] = {}
    for position in positions:
        models.setdefault(machine.gpus[position].gpu, position)
    plans: dict[object, Plan] = {}
    refusals: list[PlanError] = []
    for model, position in models.items():
        try:
            plans[model] = choose_plan_on(problem, machine, options, (position,))
        except PlanError as error:
            refusals.append(error)
    if not plans:
        raise refusals[0]

    def find_seconds(model: object) -> float:
        return (plans[model].gpu_only_seconds or inf) if model in plans else inf

    ordered = sorted(positions, key=lambda position: find_seconds(machine.gpus[position].gpu))
    return min(plans.items(), key=lambda item: find_seconds(item[0]))[1], tuple(ordered)


def _choose_gpus(one: Plan, options: PlanOptions, positions: Sequence[int]) -> Plan:
    """The best plan on some of the GPUs. Each further one must promise a gain."""
    side = one.times.alone
    if side is None or len(positions) < 2:
        return one
    best, count, most = one, 1, len(positions)
    tried = range(2, most + 1) if most <= 4 else [*_double(most), most]
    for more in tried:
        plan = choose_plan_on(one.problem, one.profile, options, positions[:more], spec=side.spec)
        limit = limit_split(best.chosen_seconds, one.problem.memory, more - count)
        if len(plan.gpu_parts) == more and plan.chosen_seconds <= limit:
            best, count = replace(plan, one_gpu_seconds=one.gpu_only_seconds), more
    return best


def _double(most: int) -> list[int]:
    """2, 4, 8 … below `most`."""
    return [2**power for power in range(1, most.bit_length()) if 2**power < most]


def choose_plan_on(
    problem: GemmProblem,
    machine: MachineProfile,
    options: PlanOptions,
    positions: Sequence[int],
    *,
    spec: KernelSpec | None = None,
) -> Plan:
    """The best plan with these GPUs of a machine, and its CPU.

    Args:
        problem: The product.
        machine: The machine.
        options: Options of the plan, but for its devices.
        positions: Positions of the GPUs among those of the machine.
        spec: The only kernel to consider, if all of these GPUs run it; None to compare all.
    """
    m, f, sms = problem.m, options.f, options.sms
    version = machine.corrections.version
    gpus = [machine.gpus[position] for position in positions]
    # Without a GPU, candidates are those of a machine that has only its CPU: none.
    first = gpus[0] if gpus else replace(machine, gpu=None, links=(), kernels=(), beside=())
    specs = find_candidates(problem, first, options)
    others = [other.gpu.compute_capability for other in gpus[1:] if other.gpu is not None]
    specs = tuple(one for one in specs if all(map(one.runs_on, others)))
    specs = tuple(one for one in specs if one is spec) or specs
    if not specs:
        reason = explain_no_kernel(problem, first, options)
        if f not in ("auto", m) and len(gpus) <= 1:  # one of several GPUs may run a kernel
            raise PlanError("f", f, f'"auto" or {m}: {reason}')
        times = ProductTimes(problem, machine, None, version)
        return make_plan(times, times.price(m), positions, no_gpu_reason=reason)
    each = []
    for one in specs:
        if len(gpus) > 1:
            side = choose_team(problem, machine, positions, one, sms)
        else:
            member = build_member(problem, first, one, sms, is_alone=True)
            side = GpuSide((positions[0],), (member,), one)
        each.append(ProductTimes(problem, machine, side, version))
    if f != "auto":
        given = [(times, times.price(f)) for times in each]
        times, prices = min(given, key=lambda pair: pair[0].find_seconds(pair[1]))
        return make_plan(times, prices, positions, sms=sms)
    return _choose_rows(each, positions, sms)


def _choose_rows(each: Sequence[ProductTimes], positions: Sequence[int], sms: int | None) -> Plan:
    """The best plan of some kernels: one device alone, or a split that promises its gain.

    A split is searched with the kernel that is the fastest alone.
    """
    alone = [(times, times.price(0)) for times in each]
    times, prices = min(alone, key=lambda pair: pair[0].find_seconds(pair[1]))
    problem, seconds = times.problem, times.find_seconds(prices)
    on_cpu = times.price(problem.m)
    if times.find_seconds(on_cpu) <= seconds:
        prices, seconds = on_cpu, times.find_seconds(on_cpu)
    split = find_split(times, seconds)
    if split is None or times.find_seconds(split) >= seconds:
        return make_plan(times, prices, positions, sms=sms)
    if times.find_seconds(split) <= limit_split(seconds, problem.memory):
        return make_plan(times, split, positions, sms=sms)
    return make_plan(times, prices, positions, sms=sms, refused=split)
