"""A trial: a plan that should be about as fast, on what has not run for such products yet.

A prediction that nothing has corrected may be too high, and then what it speaks of never runs. So
now and then a product goes there instead.
"""

from dataclasses import replace
from typing import Final

from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.candidates import find_candidates, rank_kernels
from wavetrim.scheduler.planning.plan import Plan, choose_plan

TRIAL_EXCESS: Final = 0.1
"""Share by which a trial may be predicted to take longer than the best plan; chosen."""

TRIAL_INTERVAL: Final = 50
"""One of this number of products may be a trial: 0.2% of all time if predictions hold; chosen."""


def find_trial(plan: Plan, options: PlanOptions) -> Plan | None:
    """The trial in place of a plan; None where all that comes close has run.

    Args:
        plan: The best plan.
        options: What it was chosen with.
    """
    if options.f != "auto":
        return None
    problem, profile = plan.problem, plan.profile
    has_run = profile.corrections.has_run
    most_seconds = plan.predicted.total_seconds * (1 + TRIAL_EXCESS)
    candidates = find_candidates(problem, profile, options)
    for kernel in rank_kernels(problem, profile, candidates, options.sms):
        close = kernel.alone_seconds <= most_seconds
        if close and not has_run(kernel.curve.correction.run_class):
            spec = kernel.spec
            alone = replace(options, kernel=spec.name, tile=str(spec.tile), f=0)
            return choose_plan(problem, profile, alone)
    close = plan.cpu_only_seconds <= most_seconds
    if close and not has_run(plan.cpu_alone_curve.correction.run_class):
        return choose_plan(problem, profile, replace(options, f=problem.m))
    return None
