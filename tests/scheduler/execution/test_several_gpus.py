"""One product on several GPUs, or several products at once, each on its own devices.

The GPUs compute in host memory, the CPU part is real. The tests marked `gpu` run two pipelines on
one GPU.
"""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from tests.matrices import draw_operands
from tests.processes import wait_until
from tests.scheduler.execution.host_pipeline import HostTeam
from tests.scheduler.execution.test_execute import check_final_rows
from tests.scheduler.profiles import find_executor_profile, find_preset_profile
from wavetrim.scheduler.errors import ExecutionError
from wavetrim.scheduler.execution.rows import Hooks
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan, choose_plan_on
from wavetrim.scheduler.planning.device_sets import CPU
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.corrections import Corrections

SHAPE = 3000, 300, 257
SHORT = 1500, 200, 257


@pytest.fixture
def executor(open_executor):
    return open_executor(gpus=3)


@pytest.fixture
def callers():
    with ThreadPoolExecutor(4) as threads:
        yield threads


def plan_for(*gpus, f, shape=SHAPE, **changes):
    profile = replace(find_preset_profile("H200 x3", cpu_threads=2), **changes)
    options = PlanOptions("register", f=f)
    return choose_plan_on(GemmProblem(*shape), profile, options, gpus or range(3))


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


def test_a_device_computes_one_product_at_a_time(executor, callers):
    operands = [draw_operands(*SHORT, seed=seed) for seed in range(3)]
    for pipeline in executor.gpus.pipelines:
        pipeline.row_seconds = 0.1 / SHORT[0]
    plan, start = plan_for(0, f=0, shape=SHORT), time.perf_counter()
    runs = [callers.submit(executor.run, plan, *three) for three in operands]
    for run, (a, b, c) in zip(runs, operands, strict=True):
        run.result(30)
        assert np.array_equal(c, a @ b)
    assert time.perf_counter() - start >= 0.3


def test_a_product_on_all_devices_begins_when_all_are_free(executor, callers):
    operands = [draw_operands(*SHORT, seed=seed) for seed in range(4)]
    gates = [threading.Event() for _ in range(3)]  # a product begun there ends once it is set
    for pipeline, gate in zip(executor.gpus.pipelines, gates, strict=True):
        pipeline.gate = gate
    plans = [plan_for(gpu, f=0, shape=SHORT) for gpu in range(3)]
    runs = [callers.submit(executor.run, plans[gpu], *operands[gpu]) for gpu in range(3)]
    wait_until(lambda: all(pipeline.runs for pipeline in executor.gpus.pipelines))
    rows, everywhere = [], plan_for(f=300, shape=SHORT)
    assert everywhere.device_set == {0, 1, 2, CPU}
    last = callers.submit(executor.run, everywhere, *operands[3], hooks=Hooks(progress=rows.append))
    for gate, run in zip(gates, runs, strict=True):
        assert not rows
        gate.set()
        run.result(30)
    last.result(30)
    assert rows[-1].gpu
    assert rows[-1].cpu
    for a, b, c in operands:
        assert np.array_equal(c, a @ b)


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", ["auto", "cublas", "register"])
def test_three_lanes_compute_different_products(twin_executor, callers, kernel):
    profile = find_executor_profile(twin_executor)
    random = np.random.default_rng(3)

    def compute(device_set, kernel):
        for _ in range(20):
            m, n, k = random.integers(200, 3000, 3)
            a, b = (random.integers(-3, 4, s).astype("float32") for s in ((m, k), (k, n)))
            c = np.empty((m, n), "float32")
            problem = GemmProblem(int(m), int(n), int(k))
            plan = choose_plan(problem, profile, PlanOptions(kernel), frozenset(device_set))
            assert plan.device_set == set(device_set)
            twin_executor.run(plan, a, b, c)
            assert np.array_equal(c, a @ b)

    lanes = [((0,), kernel), ((1,), kernel), ((CPU,), "auto")]
    for run in [callers.submit(compute, *one) for one in lanes]:
        run.result(300)
