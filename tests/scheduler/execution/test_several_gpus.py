"""One product on several GPUs: rows of each, progress, failures, timings.

The GPUs compute in host memory, the CPU part is real. The tests marked `gpu` run two pipelines on
one GPU.
"""

from dataclasses import replace

import numpy as np
import pytest

from tests.matrices import draw_operands
from tests.scheduler.execution.host_pipeline import HostTeam
from tests.scheduler.execution.test_execute import check_final_rows
from tests.scheduler.profiles import find_executor_profile, find_preset_profile
from wavetrim.scheduler.errors import ExecutionError
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan_on
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.corrections import Corrections

SHAPE = 3000, 300, 257


@pytest.fixture
def executor(open_executor):
    return open_executor(gpus=3)


def plan_for(gpus=3, *, f, corrections=None):
    profile = find_preset_profile(f"H200 x{gpus}", cpu_threads=2)
    if corrections is not None:
        profile = replace(profile, corrections=corrections)
    m, n, k = SHAPE
    options = PlanOptions("register", f=f)
    return choose_plan_on(GemmProblem(m, n, k), profile, options, range(gpus))


@pytest.fixture(params=[False, True], ids=["in threads", "enqueued at once"])
def submits(request, executor, monkeypatch):
    """Whether GPU parts are computed in threads of their own, or enqueued by the calling thread."""
    if request.param:
        monkeypatch.setattr("wavetrim.scheduler.execution.gpus.Team", HostTeam)
    for pipeline in executor.gpus.pipelines:
        pipeline.submits = request.param
    return request.param


@pytest.mark.usefixtures("submits")
@pytest.mark.parametrize("f", [0, 500])
@pytest.mark.parametrize("beta", [0.0, 2.0])
def test_all_devices_compute_their_rows_of_one_product(executor, f, beta):
    plan = plan_for(f=f)
    counts, _ = check_final_rows(executor, plan, *draw_operands(*SHAPE), beta)
    computed = [pipeline.rows for pipeline in executor.gpus.pipelines]
    assert computed == [len(part.rows) for part in plan.gpu_parts]
    assert counts == sorted(counts)
    assert max(counts) <= SHAPE[0]


@pytest.mark.usefixtures("submits")
@pytest.mark.parametrize("f", [0, 60])
@pytest.mark.parametrize("beta", [0.0, 2.0])
def test_gpus_divide_the_columns_of_a_wide_product(executor, f, beta):
    """A row is final only once all GPUs have written their columns of it."""
    profile = find_preset_profile("H200 x3", cpu_threads=2)
    problem = GemmProblem(250, 8000, 600, memory="pinned")
    plan = choose_plan_on(problem, profile, PlanOptions("register", f=f), range(3))
    assert plan.divides_columns
    _, timings = check_final_rows(executor, plan, *draw_operands(250, 8000, 600), beta)
    assert [position for position, _ in timings.part_seconds] == [0, 1, 2]


@pytest.mark.parametrize("failing", [0, 2])
@pytest.mark.parametrize("f", [0, 300])
def test_the_failure_of_one_gpu_stops_all_parts(executor, submits, failing, f):
    a, b, c = draw_operands(*SHAPE)
    for number, pipeline in enumerate(executor.gpus.pipelines):
        pipeline.fails = number == failing
        # In threads some seconds, unless it is stopped; what is enqueued at once ends.
        pipeline.row_seconds = 0.0 if submits else 0.005
    plan = plan_for(f=f)
    with pytest.raises(ExecutionError, match="the GPU is lost"):
        executor.run(plan, a, b, c)
    parts = zip(executor.gpus.pipelines, plan.gpu_parts, strict=True)
    assert submits or all(pipeline.rows < len(part.rows) for pipeline, part in parts)
    executor.gpus.pipelines[failing].fails = False
    for pipeline in executor.gpus.pipelines:
        pipeline.row_seconds = 0.0
    executor.run(plan_for(f=f), a, b, c)
    assert np.array_equal(c, a @ b)


def test_runs_of_both_parts_correct_the_next_prediction(executor, monkeypatch):
    monkeypatch.setattr("wavetrim.scheduler.execution.timings.SAMPLED_SECONDS", 0.0)
    corrections = Corrections()
    plan = plan_for(f=300, corrections=corrections)
    a, b, c = draw_operands(*SHAPE)
    for _ in range(4):  # the first one loads the kernel
        executor.run(plan, a, b, c)
    runs = {kind: factor.runs for kind, factor in corrections.list_all().items()}
    assert runs == {kind.name: 3 for kind in plan.kinds}


@pytest.mark.gpu
@pytest.mark.parametrize("beta", [0.0, 2.0])
@pytest.mark.parametrize("planned", [0.0, 0.1])
@pytest.mark.parametrize(
    "shape", [(8192, 4096, 4096), (6000, 2011, 1013), (16384, 8192, 256), (200, 8200, 4000)]
)
def test_two_pipelines_compute_one_product(twin_executor, shape, planned, beta):
    m, n, k = shape
    a, b, c = draw_operands(m, n, k)
    expected = a @ b + (beta * c if beta else 0)
    profile = find_executor_profile(twin_executor)
    options = PlanOptions(f=int(planned * m))
    plan = choose_plan_on(GemmProblem(m, n, k), profile, options, (0, 1))
    timings = twin_executor.run(plan, a, b, c, beta=beta)
    assert np.array_equal(c, expected)
    assert len(timings.part_seconds) == 2
