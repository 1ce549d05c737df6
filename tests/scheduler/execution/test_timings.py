"""What a run says of its plan's predictions."""

import pytest

from tests.scheduler.profiles import find_preset_profile, join_profiles
from wavetrim.scheduler.execution.timings import Timings, list_ratios
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.planning.cpu_rows import CONTENTION
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.problem import GemmProblem

MACHINES = {
    "one": find_preset_profile("H200"),
    "alike": find_preset_profile("H100 SXM x8"),
    "unequal": join_profiles(find_preset_profile("H200"), find_preset_profile("H100 PCIe")),
}


def run_as_predicted(plan: Plan, *, slower: int | None = None) -> Timings:
    """A run that takes as long as predicted, but for one part that takes twice as long."""
    parts = tuple(
        (part.position, part.seconds * (2 if number == slower else 1))
        for number, part in enumerate(plan.gpu_parts)
    )
    cpu_seconds = (
        plan.predicted.cpu_seconds - CONTENTION[plan.problem.memory].start_seconds
        if plan.f
        else 0.0
    )
    gpu_seconds = max((seconds for _, seconds in parts), default=0.0)
    total_seconds = max(gpu_seconds, plan.predicted.cpu_seconds)
    return Timings(None, None, gpu_seconds, cpu_seconds, total_seconds, plan.f, parts)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("f", ["auto", 0, 100])
@pytest.mark.parametrize("shape", [(7193, 7740, 709), (20_000, 500, 500), (300, 8192, 8192)])
def test_a_run_that_takes_as_long_as_predicted_corrects_nothing(machine, f, shape):
    """Also where the last of GPUs that are alike has fewer rows."""
    problem = GemmProblem(*shape, memory="pinned")
    plan = choose_plan(problem, MACHINES[machine], PlanOptions(f=f))
    found = list_ratios(plan, run_as_predicted(plan))
    assert found
    for _, predicted_seconds, seconds in found:
        assert seconds == pytest.approx(predicted_seconds)
