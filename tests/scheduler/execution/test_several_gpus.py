"""One product on several GPUs: rows of each, progress, failures, timings.

The GPUs compute in host memory, the CPU part is real. The tests marked `gpu` run two pipelines on
one GPU.
"""

import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from tests.matrices import draw_operands, poison
from tests.scheduler.execution.host_pipeline import HostTeam
from tests.scheduler.profiles import find_executor_profile, find_preset_profile
from wavetrim.scheduler.errors import ExecutionCancelled, ExecutionError
from wavetrim.scheduler.execution.run_notes import BRIEF_RUNS_NOTED, BRIEF_SECONDS
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.kernel_choice import choose_plan_on
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.history import RunHistory

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
        monkeypatch.setattr("wavetrim.scheduler.execution.teams.Team", HostTeam)
    for pipeline in executor.pipelines:
        pipeline.submits = request.param
    return request.param


@pytest.mark.usefixtures("submits")
@pytest.mark.parametrize("f", [0, 500])
@pytest.mark.parametrize("beta", [0.0, 2.0])
def test_all_devices_compute_their_rows_of_one_product(executor, f, beta):
    a, b, before = draw_operands(*SHAPE)
    expected = a @ b + (beta * before if beta else 0)
    c = before.copy() if beta else poison(before.copy())
    seen, counts = [], []

    def check(final):
        counts.append(sum(map(len, final)))
        for rows in final:
            assert np.array_equal(c[rows.start : rows.stop], expected[rows.start : rows.stop])

    plan = plan_for(f=f)
    timings = executor.run(plan, a, b, c, beta=beta, progress=seen.append, final=check)
    assert np.array_equal(c, expected)
    computed = [pipeline.rows for pipeline in executor.pipelines]
    assert computed == [len(part.rows) for part in plan.gpu_parts]
    assert timings.f_actual == f
    assert seen[-1].share == pytest.approx(1.0)
    assert seen[-1].cpu == pytest.approx(f)
    assert counts == sorted(counts)
    assert max(counts) <= SHAPE[0]


@pytest.mark.usefixtures("submits")
@pytest.mark.parametrize("f", [0, 60])
@pytest.mark.parametrize("beta", [0.0, 2.0])
def test_gpus_divide_the_columns_of_a_wide_product(executor, f, beta):
    profile = find_preset_profile("H200 x3", cpu_threads=2)
    problem = GemmProblem(250, 8000, 600, memory="pinned")
    options = PlanOptions("register", f=f)
    plan = choose_plan_on(problem, profile, options, range(3))
    assert plan.divides_columns
    a, b, before = draw_operands(250, 8000, 600)
    expected = a @ b + (beta * before if beta else 0)
    c = before.copy() if beta else poison(before.copy())
    seen, finals = [], []
    timings = executor.run(plan, a, b, c, beta=beta, progress=seen.append, final=finals.append)
    assert np.array_equal(c, expected)
    assert timings.f_actual == f
    assert seen[-1].share == pytest.approx(1.0)
    assert seen[-1].cpu == pytest.approx(f)
    # A row is final only once all GPUs have written their columns of it.
    assert all(rows.start >= 250 - f for final in finals for rows in final)
    assert [position for position, _ in timings.part_seconds] == [0, 1, 2]


def test_timings_have_the_seconds_of_each_gpu(executor):
    a, b, c = draw_operands(*SHAPE)
    timings = executor.run(plan_for(f=0), a, b, c)
    document = timings.as_dict()
    each = [document[f"gpu{position}_seconds"] for position in range(3)]
    assert document["gpu_seconds"] == max(each)
    assert document["kernel_seconds"] == 3 * 0.5
    one = plan_for(gpus=1, f=0)
    assert "gpu0_seconds" not in executor.run(one, a, b, c).as_dict()


@pytest.mark.parametrize("failing", [0, 2])
@pytest.mark.parametrize("f", [0, 300])
def test_the_failure_of_one_gpu_stops_all_parts(executor, submits, failing, f):
    a, b, c = draw_operands(*SHAPE)
    for number, pipeline in enumerate(executor.pipelines):
        pipeline.fails = number == failing
        # In threads some seconds, unless it is stopped; what is enqueued at once ends.
        pipeline.row_seconds = 0.0 if submits else 0.005
    start = time.perf_counter()
    with pytest.raises(ExecutionError, match="the GPU is lost"):
        executor.run(plan_for(f=f), a, b, c)
    assert time.perf_counter() - start < 4
    executor.pipelines[failing].fails = False
    for pipeline in executor.pipelines:
        pipeline.row_seconds = 0.0
    executor.run(plan_for(f=f), a, b, c)
    assert np.array_equal(c, a @ b)


def test_a_cancelled_product_stops_on_all_gpus(executor):
    a, b, c = draw_operands(*SHAPE)
    for pipeline in executor.pipelines:
        pipeline.row_seconds = 0.005
    stop = threading.Event()
    threading.Timer(0.2, stop.set).start()
    with pytest.raises(ExecutionCancelled):
        executor.run(plan_for(f=0), a, b, c, cancelled=stop.is_set)
    assert all(pipeline.rows < 1000 for pipeline in executor.pipelines)


def test_runs_of_each_gpu_correct_the_next_prediction(executor, monkeypatch):
    monkeypatch.setattr("wavetrim.scheduler.execution.run_notes.BRIEF_SECONDS", 0.0)
    history = RunHistory(None, "test")
    plan = plan_for(f=300, corrections=history)
    a, b, c = draw_operands(*SHAPE)
    for _ in range(2):  # the first one loads the kernel
        executor.run(plan, a, b, c)
    runs = {one.run_class.device: one.runs for one in history.list_all()}
    assert runs == {"each of 3 gpus, gpu from pageable memory": 1, "cpu in float32": 1}


def test_of_brief_products_one_in_eight_is_recorded(executor):
    history = RunHistory(None, "test")
    plan = plan_for(f=0, corrections=history)
    assert plan.predicted.total_seconds < BRIEF_SECONDS
    a, b, c = draw_operands(*SHAPE)
    executor.run(plan_for(f=0), a, b, c)  # loads the kernel
    for _ in range(3 * BRIEF_RUNS_NOTED):
        executor.run(plan, a, b, c)
    (found,) = history.list_all()
    assert found.runs == 3


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
