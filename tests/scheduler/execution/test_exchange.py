"""Products whose GPUs exchange B, by two pipelines on one GPU."""

import threading

import numpy as np
import pytest

from tests.matrices import draw_pinned, poison
from tests.scheduler.profiles import find_executor_profile, join_links
from wavetrim.kernels.device import select_devices
from wavetrim.kernels.pipeline import team
from wavetrim.scheduler.errors import ExecutionCancelled
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.execution.rows import Hooks
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning import team as planned_team
from wavetrim.scheduler.planning.choice import choose_plan_on
from wavetrim.scheduler.problem import GemmProblem


def plan_exchange(executor, m, n, k, f=0):
    """A plan whose GPUs exchange B, even where that costs more time than it saves."""
    profile = join_links(find_executor_profile(executor), peer_gbytes_per_second=1000.0)
    problem = GemmProblem(m, n, k, memory="pinned")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planned_team, "LONG_SECONDS", 1.0)
        if m >= n:  # else columns would be divided
            patch.setattr(planned_team, "LEAST_GAIN", -9.0)
        plan = choose_plan_on(problem, profile, PlanOptions(f=f), (0, 1))
    assert plan.exchanges
    return plan


@pytest.fixture
def exchanged(monkeypatch):
    """For each product whose commands are recorded, whether its GPUs exchange B."""
    found, assign_ranks = [], team.assign_ranks

    def watch(*operands):
        seats = assign_ranks(*operands)
        found.append(seats is not None)
        return seats

    monkeypatch.setattr(team, "assign_ranks", watch)
    return found


@pytest.mark.gpu
@pytest.mark.parametrize("planned", [0.0, 0.1])
@pytest.mark.parametrize(
    "shape", [(4096, 4096, 4096), (3000, 2011, 1013), (12000, 4096, 1024), (2048, 8192, 8192)]
)
def test_gpus_that_exchange_b_compute_the_product(twin_executor, exchanged, shape, planned):
    plan = plan_exchange(twin_executor, *shape, f=int(planned * shape[0]))
    a, b, c = draw_pinned(*shape)
    for _ in range(3):
        twin_executor.run(plan, a, b, poison(c))
        assert np.array_equal(c, a @ b)
    assert exchanged == [True]


@pytest.mark.gpu
def test_a_b_that_does_not_fit_is_fetched_by_each_gpu(kernel_cache, exchanged):
    m, n, k = 6000, 3000, 3000
    a, b, c = draw_pinned(m, n, k)
    with Executor(
        cache_dir=kernel_cache, devices=select_devices("0,0"), gpu_memory_bytes=24 << 20
    ) as executor:
        executor.run(plan_exchange(executor, m, n, k), a, b, c)
    assert np.array_equal(c, a @ b)
    assert exchanged == [False]


@pytest.mark.gpu
def test_a_product_that_exchanges_b_can_be_cancelled_and_the_next_is_right(twin_executor):
    shape = 8192, 8192, 8192
    a, b, c = draw_pinned(*shape)
    plan = plan_exchange(twin_executor, *shape)
    stop = threading.Event()
    threading.Timer(0.005, stop.set).start()

    def run_until_stopped():
        while True:
            twin_executor.run(plan, a, b, c, hooks=Hooks(cancelled=stop.is_set))

    with pytest.raises(ExecutionCancelled):
        run_until_stopped()
    twin_executor.run(plan, a, b, c)
    assert np.array_equal(c[::97], a[::97] @ b)
