"""Several products at once, each on its own devices.

The GPUs compute in host memory, the CPU part is real. The test marked `gpu` runs two pipelines on
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
from tests.scheduler.profiles import find_executor_profile, find_preset_profile
from wavetrim.scheduler.execution.rows import Hooks
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan, choose_plan_on
from wavetrim.scheduler.planning.device_sets import CPU
from wavetrim.scheduler.problem import GemmProblem

SHAPE = 1500, 200, 257


@pytest.fixture
def executor(open_executor):
    return open_executor(gpus=2)


@pytest.fixture
def callers():
    with ThreadPoolExecutor(4) as threads:
        yield threads


def plan_for(*devices, corrections=None):
    profile = find_preset_profile("H200 x2", cpu_threads=2)
    profile = profile if corrections is None else replace(profile, corrections=corrections)
    positions = [one for one in devices if one != CPU]
    f = {True: 300, False: 0}[CPU in devices] if positions else SHAPE[0]
    problem = GemmProblem(*SHAPE)
    plan = choose_plan_on(problem, profile, PlanOptions("register", f=f), positions)
    assert plan.device_set == set(devices)
    return plan


@pytest.fixture
def gates(executor):
    """An event for each GPU; a product begun there ends only once it is set."""
    gates = [threading.Event() for _ in executor.gpus.pipelines]
    for pipeline, gate in zip(executor.gpus.pipelines, gates, strict=True):
        pipeline.gate = gate
    yield gates
    for gate in gates:
        gate.set()


def test_a_device_computes_one_product_at_a_time(executor, callers):
    operands = [draw_operands(*SHAPE, seed=seed) for seed in range(3)]
    for pipeline in executor.gpus.pipelines:
        pipeline.row_seconds = 0.1 / SHAPE[0]
    start = time.perf_counter()
    runs = [callers.submit(executor.run, plan_for(0), *three) for three in operands]
    for run, (a, b, c) in zip(runs, operands, strict=True):
        run.result(30)
        assert np.array_equal(c, a @ b)
    assert time.perf_counter() - start >= 0.3


def test_a_product_on_all_devices_begins_when_all_are_free(executor, callers, gates):
    operands = [draw_operands(*SHAPE, seed=seed) for seed in range(3)]
    runs = [callers.submit(executor.run, plan_for(one), *operands[one]) for one in (0, 1)]
    wait_until(lambda: all(pipeline.runs for pipeline in executor.gpus.pipelines))
    rows = []
    everywhere = callers.submit(
        executor.run, plan_for(0, 1, CPU), *operands[2], hooks=Hooks(progress=rows.append)
    )
    gates[0].set()
    runs[0].result(30)
    assert not rows
    gates[1].set()
    for run in (runs[1], everywhere):
        run.result(30)
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
