"""The choice on given devices: the CPU alone and each candidate kernel with its best F.

The fastest by predicted seconds is chosen. Pure: no array or device is touched.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from wavetrim.cpu.blocks import is_small
from wavetrim.kernels.spec import KernelSpec
from wavetrim.scheduler.errors import PlanError
from wavetrim.scheduler.model.cost import rows_within
from wavetrim.scheduler.model.curves import build_cpu_curve, find_writing_share
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.candidates import explain_no_kernel, find_candidates, find_common
from wavetrim.scheduler.planning.plan import Plan, Prediction
from wavetrim.scheduler.planning.ranking import RankedKernel, rank_kernels
from wavetrim.scheduler.planning.split import limit_split, split_rows
from wavetrim.scheduler.planning.team import GpuSide, list_dividing
from wavetrim.scheduler.planning.team_curves import share_with_cpu
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.machine import MachineProfile

LEAST_LEAD: Final = 0.03
"""Share of the time by which a kernel or device must be ahead if only corrections put it there;
chosen. Runs of the same product differ by about as much."""


def choose_plan_on(
    problem: GemmProblem,
    machine: MachineProfile,
    options: PlanOptions,
    positions: Sequence[int],
    *,
    spec: KernelSpec | None = None,
) -> Plan:
    """The best plan with exactly these GPUs of a machine, and its CPU.

    Args:
        problem: The product.
        machine: The machine.
        options: Options of the plan, but for its devices.
        positions: Positions of the GPUs among those of the machine.
        spec: The only kernel to consider, if all of these GPUs run it: that of the best plan on
            fewer GPUs. None to compare all kernels.

    Raises:
        PlanError: As `choose_plan`.
    """
    m, f = problem.m, options.f
    gpus = [machine.gpus[position] for position in positions]
    # Without a GPU, candidates are those of a machine that has only its CPU: none.
    profile = gpus[0] if gpus else replace(machine, gpu=None, links=(), kernels=(), beside=())
    candidates = find_common(find_candidates(problem, profile, options), gpus[1:])
    candidates = tuple(one for one in candidates if one.spec is spec) or candidates
    kernels = rank_kernels(problem, profile, candidates, options.sms, beside=gpus[1:])
    # All plans that can be the best take about as long as that of the first kernel.
    copying = kernels[0].curve.copying_share if kernels else 1.0
    cpu_plans = _list_cpu_plans(problem, machine, positions, copying)
    if not candidates:
        reason = explain_no_kernel(problem, profile, options)
        if f not in ("auto", m) and len(gpus) <= 1:  # one of several GPUs may run a kernel
            raise PlanError("f", f, f'"auto" or {m}: {reason}')
        return replace(cpu_plans[0], no_gpu_reason=reason)
    alone_seconds = min(kernel.alone_seconds for kernel in kernels)
    alone_seconds = min(alone_seconds, cpu_plans[0].predicted.total_seconds)
    best: Plan | None = None
    # First the kernel that would be chosen without corrections: it is replaced only for a lead.
    for kernel in sorted(kernels, key=lambda one: one.uncorrected_seconds):
        # The search for the best F is skipped for kernels that cannot win.
        if best is None or f != "auto" or _can_beat(best, cpu_plans, kernel, alone_seconds):
            plan = _choose_rows(cpu_plans, kernel, options, alone_seconds)
            best = plan if best is None else _take_faster(best, plan)
    assert best is not None, "there is a candidate"
    return best


def _list_cpu_plans(
    problem: GemmProblem,
    profile: MachineProfile,
    positions: Sequence[int],
    copying_share: float,
) -> list[Plan]:
    """The plan of the CPU alone, once for each way to share the CPU with the GPU.

    Args:
        problem: The product.
        profile: The machine.
        positions: Positions of the GPUs.
        copying_share: Share of the GPU part's time in which copies are under way.
    """
    alone = build_cpu_curve(problem, profile)
    joint = profile.find_joint(problem.memory, len(positions))
    writing = find_writing_share(problem, profile)
    shares = [share.slow_links(writing) for share in profile.cpu.list_shares(problem.memory)]
    if joint is not None:
        shares = [share.slow_memory(joint.split_stretch) for share in shares]
    return [
        Plan(
            problem=problem,
            f=problem.m,
            spec=None,
            sms=None,
            profile=profile,
            predicted=Prediction(0.0, alone.seconds(problem.m)),
            gpu_curve=None,
            gpu_alone_curve=None,
            share=share,
            cpu_curve=build_cpu_curve(problem, profile, share, copying_share),
            cpu_alone_curve=alone,
            is_small=is_small(problem.m, problem.n, problem.k, problem.dtype),
            positions=tuple(positions),
        )
        for share in shares
    ]


def _can_beat(
    plan: Plan, cpu_plans: Sequence[Plan], kernel: RankedKernel, alone_seconds: float
) -> bool:
    """Whether another kernel may be faster, alone or in a split that promises enough.

    Args:
        plan: The best plan so far.
        cpu_plans: The plan of the CPU alone, for each way to share the CPU.
        kernel: The other kernel.
        alone_seconds: Seconds of the best single device with any kernel.
    """
    sooner = plan.predicted.total_seconds
    least_seconds = kernel.curve.find_least_seconds(plan.problem.m)
    if least_seconds <= sooner and kernel.alone_seconds <= sooner:
        return True
    limit = min(sooner, limit_split(alone_seconds, cpu_plans[0].problem.memory))
    return any(_can_end_within(limit, cpu_plan, kernel) for cpu_plan in cpu_plans)


def _choose_rows(
    cpu_plans: Sequence[Plan], kernel: RankedKernel, options: PlanOptions, alone_seconds: float
) -> Plan:
    """The best plan with one kernel, or the plan with the given F.

    A split must promise its gain over the best single device, which may use another kernel.
    """
    m = cpu_plans[0].problem.m
    if options.f != "auto":
        given = [
            _add_kernel(cpu_plan, kernel, options).move(options.f, kernel.spec)
            for cpu_plan in cpu_plans
        ]
        return min(given, key=lambda plan: plan.predicted.total_seconds)
    first = _add_kernel(cpu_plans[0], kernel, options)
    alone = first.move(0, kernel.spec)
    chosen = _take_faster(alone, first)
    limit = limit_split(alone_seconds, cpu_plans[0].problem.memory)
    for cpu_plan in cpu_plans:
        if not _can_end_within(limit, cpu_plan, kernel):
            continue
        plan = _add_kernel(cpu_plan, kernel, options)
        assert plan.gpu_curve is not None, "a kernel has been taken"
        *_, f = split_rows(m, [*list_dividing(plan.gpu_curve), plan.cpu_curve])
        plan = plan.move(f, kernel.spec)
        if plan.predicted.total_seconds <= limit:
            chosen, limit = plan, plan.predicted.total_seconds
    return chosen


def _take_faster(plan: Plan, other: Plan) -> Plan:
    """The faster plan; of equally fast ones the first.

    One that is slower without corrections must lead by `LEAST_LEAD`: runs are noisy.
    """
    usual, changed = plan, other
    if other.uncorrected_seconds < plan.uncorrected_seconds:
        usual, changed = other, plan
    lead = LEAST_LEAD if usual.uncorrected_seconds < changed.uncorrected_seconds else 0.0
    sooner = usual.predicted.total_seconds * (1 - lead)
    return changed if changed.predicted.total_seconds < sooner else usual


def _can_end_within(seconds: float, cpu_plan: Plan, kernel: RankedKernel) -> bool:
    """Whether a split may end within `seconds`; cheaper than the search for the best F."""
    m = cpu_plan.problem.m
    rows = m - rows_within(cpu_plan.cpu_curve, seconds, m)
    if rows == m or kernel.curve.find_least_seconds(rows) > seconds:
        return False
    return _share_with_cpu(cpu_plan, kernel).seconds(rows) <= seconds


def _share_with_cpu(cpu_plan: Plan, kernel: RankedKernel) -> GpuSide:
    """The kernel's curve while the CPU part computes other rows."""
    return share_with_cpu(kernel.curve, cpu_plan.problem, kernel.gpus, kernel.spec, cpu_plan.share)


def _add_kernel(cpu_plan: Plan, kernel: RankedKernel, options: PlanOptions) -> Plan:
    """The plan of the CPU alone with this kernel's curves, to be moved to another F."""
    shared = _share_with_cpu(cpu_plan, kernel)
    return replace(cpu_plan, gpu_curve=shared, gpu_alone_curve=kernel.curve, sms=options.sms)
