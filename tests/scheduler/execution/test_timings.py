"""What a run says of its plan's predictions."""

import pytest

from tests.scheduler.profiles import find_preset_profile, join_profiles
from wavetrim.scheduler.execution.timings import (
    Timings,
    compare_with_plan,
    list_part_seconds,
)
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.planning.kernel_choice import choose_plan_on
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.problem import GemmProblem

MACHINES = {
    "one": find_preset_profile("H200"),
    "alike": find_preset_profile("H100 SXM x8"),
    "unequal": join_profiles(find_preset_profile("H200"), find_preset_profile("H100 PCIe")),
}
RAGGED = GemmProblem(12_000, 3000, 3000, memory="pinned")


def run_as_predicted(plan: Plan, *, slower: int | None = None) -> Timings:
    """A run that takes as long as predicted, but for one part that takes twice as long."""
    parts = tuple(
        (part.position, part.seconds * (2 if number == slower else 1))
        for number, part in enumerate(plan.gpu_parts)
    )
    cpu_seconds = plan.predicted.cpu_seconds - plan.share.late_seconds if plan.f else 0.0
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
    found = compare_with_plan(plan, run_as_predicted(plan))
    assert found
    for _, predicted_seconds, seconds in found:
        assert seconds == pytest.approx(predicted_seconds)


def test_of_gpus_that_are_alike_the_slowest_counts():
    plan = choose_plan_on(RAGGED, MACHINES["alike"], PlanOptions(f=0), range(5))
    first, *_, last = plan.gpu_parts
    assert len(last.rows) < len(first.rows)
    for slower, ratio in ((0, 2.0), (4, max(1.0, 2 * last.seconds / first.seconds))):
        ((_, predicted_seconds, seconds),) = compare_with_plan(
            plan, run_as_predicted(plan, slower=slower)
        )
        assert predicted_seconds == pytest.approx(first.seconds)
        assert seconds / predicted_seconds == pytest.approx(ratio)


def test_parts_that_one_call_enqueues_take_as_long_as_their_gpus_and_the_call():
    plan = choose_plan_on(RAGGED, MACHINES["alike"], PlanOptions(f=0), range(3))
    found = list_part_seconds(plan, 3.5, [2.0, 3.0, 1.0])
    assert found == ((0, 2.5), (1, 3.5), (2, 1.5))
    alone = choose_plan_on(RAGGED, MACHINES["alike"], PlanOptions(f=0), (2,))
    assert list_part_seconds(alone, 3.5, ()) == ((2, 3.5),)
