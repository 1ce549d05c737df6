"""Several products at once, each on devices of its own.

A GPU that computes its rows in host memory stands in where there is none; the CPU part is real. The
tests marked `gpu` run two pipelines on one GPU.
"""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from tests.limit import allow
from tests.scheduler.execution.host_pipeline import HostPipeline
from wavetrim.kernels.device import select_devices
from wavetrim.scheduler.errors import ExecutionCancelled
from wavetrim.scheduler.execution import executor as executor_module
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan, choose_plan_on
from wavetrim.scheduler.planning.lanes import CPU
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.history import RunHistory
from wavetrim.scheduler.profile.store import find_profile

M, N, K = 1500, 200, 257


@pytest.fixture
def executor(kernel_cache, monkeypatch):
    monkeypatch.setattr(executor_module, "GpuPipeline", HostPipeline)
    info = type("Info", (), {"index": 0})()
    with Executor(cache_dir=kernel_cache, devices=[info] * 2, cpu_threads=2) as executor:
        executor.pool.prepare()
        yield executor


@pytest.fixture
def callers():
    with ThreadPoolExecutor(4) as threads:
        yield threads


def plan_for(*devices, history=None):
    """A plan with rows on exactly these devices."""
    profile = find_profile("H200 x2", devices=(), directory=None, cpu_threads=2)
    profile = profile if history is None else replace(profile, corrections=history)
    positions = [one for one in devices if one != CPU]
    f = {True: 300, False: 0}[CPU in devices] if positions else M
    problem = GemmProblem(M, N, K)
    plan = choose_plan_on(problem, profile, PlanOptions("register", f=f), positions)
    assert plan.lane == set(devices)
    return plan


def draw_operands(seed=7):
    random = np.random.default_rng(seed)
    return [random.integers(-3, 4, s).astype("float32") for s in ((M, K), (K, N), (M, N))]


def slow(executor, seconds):
    """Let each GPU take so long for all rows."""
    for pipeline in executor.pipelines:
        pipeline.row_seconds = seconds / M


def test_products_on_devices_of_their_own_run_at_the_same_time_and_are_right(executor, callers):
    slow(executor, 1.0)
    lanes = (0,), (1,), (CPU,)
    operands = [draw_operands(seed) for seed in range(3)]
    start = time.perf_counter()
    runs = [
        callers.submit(executor.run, plan_for(*lane), *three)
        for lane, three in zip(lanes, operands, strict=True)
    ]
    for run, (a, b, c) in zip(runs, operands, strict=True):
        run.result(30)
        assert np.array_equal(c, a @ b)
    assert time.perf_counter() - start < allow(1.8)


def test_a_device_works_at_one_product(executor, callers):
    slow(executor, 0.4)
    operands = [draw_operands(seed) for seed in range(3)]
    start = time.perf_counter()
    runs = [callers.submit(executor.run, plan_for(0), *three) for three in operands]
    for run, (a, b, c) in zip(runs, operands, strict=True):
        run.result(30)
        assert np.array_equal(c, a @ b)
    assert time.perf_counter() - start >= 1.2


def test_one_is_cancelled_while_the_other_goes_on(executor, callers):
    slow(executor, 2.0)
    operands = [draw_operands(seed) for seed in range(2)]
    stop = threading.Event()
    goes = callers.submit(executor.run, plan_for(0), *operands[0])
    ends = callers.submit(executor.run, plan_for(1), *operands[1], cancelled=stop.is_set)
    time.sleep(0.3)
    stop.set()
    with pytest.raises(ExecutionCancelled):
        ends.result(allow(1.0))
    assert not goes.done()
    goes.result(30)
    a, b, c = operands[0]
    assert np.array_equal(c, a @ b)


def test_a_product_over_all_devices_begins_when_they_are_free_together(executor, callers):
    slow(executor, 0.5)
    operands = [draw_operands(seed) for seed in range(3)]
    runs = [callers.submit(executor.run, plan_for(one), *operands[one]) for one in (0, 1)]
    time.sleep(0.1)
    rows = []
    everywhere = callers.submit(
        executor.run, plan_for(0, 1, CPU), *operands[2], progress=rows.append
    )
    for run in runs:
        run.result(30)
    everywhere.result(30)
    assert rows[-1].gpu
    assert rows[-1].cpu
    for a, b, c in operands:
        assert np.array_equal(c, a @ b)


def test_times_beside_other_products_correct_no_prediction(executor, callers, monkeypatch):
    monkeypatch.setattr("wavetrim.scheduler.execution.executor.BRIEF_SECONDS", 0.0)
    history = RunHistory(None, "test")
    plan = plan_for(0, history=history)
    executor.run(plan, *draw_operands())  # loads the kernel
    slow(executor, 0.4)
    runs = [callers.submit(executor.run, one, *draw_operands()) for one in (plan, plan_for(1))]
    for run in runs:
        run.result(30)
    assert history.list_all() == []
    executor.run(plan, *draw_operands())
    assert [one.runs for one in history.list_all()] == [1]


@pytest.fixture(scope="module")
def twin_executor(kernel_cache):
    """Two pipelines on one GPU."""
    with Executor(cache_dir=kernel_cache, devices=select_devices("0,0")) as executor:
        yield executor


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", ["auto", "cublas", "register"])
def test_three_lanes_compute_different_products_again_and_again(twin_executor, callers, kernel):
    profile = find_profile(
        None, devices=twin_executor.devices, directory=None,
        cpu_threads=twin_executor.pool.threads,
    )  # fmt: skip
    random = np.random.default_rng(3)

    def compute(lane, kernel):
        for _ in range(20):
            m, n, k = random.integers(200, 3000, 3)
            a, b = (random.integers(-3, 4, s).astype("float32") for s in ((m, k), (k, n)))
            c = np.empty((m, n), "float32")
            problem = GemmProblem(int(m), int(n), int(k))
            plan = choose_plan(problem, profile, PlanOptions(kernel), frozenset(lane))
            assert plan.lane == set(lane)
            twin_executor.run(plan, a, b, c)
            assert np.array_equal(c, a @ b)

    lanes = [((0,), kernel), ((1,), kernel), ((CPU,), "auto")]
    for run in [callers.submit(compute, *one) for one in lanes]:
        run.result(300)
