"""Trials: plans that should be about as fast, with a kernel or device that has not run yet.

If a prediction is too high, its kernel or device is never chosen, and so the prediction is never
corrected. So now and then a product runs there.
"""

from dataclasses import replace
from typing import Final

from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.candidates import find_candidates
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.planning.ranking import RankedKernel, rank_kernels
from wavetrim.scheduler.planning.team import list_members

TRIAL_EXCESS: Final = 0.1
"""Largest predicted excess of a trial over the best plan, as a share of its time; chosen."""

TRIAL_INTERVAL: Final = 50
"""Products for each trial: trials cost at most 0.2% of the time if predictions hold; chosen."""


def find_trial(plan: Plan, options: PlanOptions) -> Plan | None:
    """A trial in place of a plan; None if all kernels and devices that come close have run.

    Args:
        plan: The best plan.
        options: The options that it was chosen with.
    """
    if options.f != "auto" or len(plan.gpu_parts) > 1:
        return None
    problem, profile = plan.problem, plan.profile
    has_run = profile.corrections.has_run
    most_seconds = plan.predicted.total_seconds * (1 + TRIAL_EXCESS)
    for kernel in _rank_kernels(plan, options):
        close = kernel.alone_seconds <= most_seconds
        (curve,) = list_members(kernel.curve)
        if close and not has_run(curve.correction.run_class):
            spec = kernel.spec
            alone = replace(options, kernel=spec.name, tile=str(spec.tile), f=0)
            return choose_plan(problem, profile, alone)
    close = plan.cpu_only_seconds <= most_seconds
    if close and not has_run(plan.cpu_alone_curve.correction.run_class):
        return choose_plan(problem, profile, replace(options, f=problem.m))
    return None


def _rank_kernels(plan: Plan, options: PlanOptions) -> list[RankedKernel]:
    """The kernels of the plan's GPU; none without one."""
    if not plan.positions:
        return []
    problem, gpu = plan.problem, plan.profile.gpus[plan.positions[0]]
    return rank_kernels(problem, gpu, find_candidates(problem, gpu, options), options.sms)
