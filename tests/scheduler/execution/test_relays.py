"""Products whose bytes cross other links, too, as run: by two pipelines on one GPU, and by two."""

import threading
from dataclasses import replace
from statistics import median

import numpy as np
import pytest

from tests.matrices import draw_pinned, poison
from tests.scheduler.profiles import find_executor_profile
from wavetrim.kernels.device import list_devices, select_devices
from wavetrim.kernels.errors import DeviceFailure
from wavetrim.kernels.pipeline.commands import relay
from wavetrim.kernels.pipeline.commands.programs import Programs
from wavetrim.kernels.pipeline.commands.relay import Relay
from wavetrim.kernels.timing.joint_rates import measure_joint_rates
from wavetrim.scheduler.errors import ExecutionError
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.kernel_choice import choose_plan_on
from wavetrim.scheduler.problem import GemmProblem


def plan_relayed(executor, m, n, k, f=0, dtype="float32"):
    """A plan with a relay, even where that costs more time than it saves."""
    profile = replace(find_executor_profile(executor), peer_gbytes_per_second=250.0)
    problem = GemmProblem(m, n, k, dtype, memory="pinned")
    return choose_plan_on(problem, profile, PlanOptions(f=f), (0,), relays=(1,))


@pytest.fixture
def relayed(monkeypatch):
    """For each product that is enqueued, the number of its GPUs and relays."""
    found, enqueue = [], Programs.enqueue

    def watch(programs, *operands):
        found.append(len(programs.buffers))
        return enqueue(programs, *operands)

    monkeypatch.setattr(Programs, "enqueue", watch)
    return found


@pytest.mark.gpu
@pytest.mark.parametrize("planned", [0.0, 0.1])
@pytest.mark.parametrize(
    "shape", [(4096, 4096, 4096), (3000, 2011, 1013), (12000, 8192, 256), (700, 8192, 8192)]
)
def test_a_relayed_product_is_right(twin_executor, compute_thrice, relayed, shape, planned):
    compute_thrice(plan_relayed(twin_executor, *shape, f=int(planned * shape[0])))
    assert relayed == [2, 2, 2]


@pytest.mark.gpu
def test_beta_reads_c_over_both_links_and_rows_are_told_in_order(twin_executor):
    a, b, c = draw_pinned(3000, 4096, 512)
    c[...] = before = np.arange(c.size, dtype=np.float32).reshape(c.shape) % 7
    before, told, rows = before.copy(), [], []
    twin_executor.run(
        plan_relayed(twin_executor, 3000, 4096, 512), a, b, c, alpha=2.0, beta=3.0,
        progress=lambda done: told.append(done.gpu), final=rows.extend,
    )  # fmt: skip
    assert np.array_equal(c, 2 * (a @ b) + 3 * before)
    assert told[-1] == 3000
    assert sorted(row for one in rows for row in one)[-1] == 2999


@pytest.mark.gpu
def test_a_relay_computes_another_product_meanwhile(twin_executor):
    shape = 6000, 8192, 512
    a, b, c = draw_pinned(*shape)
    other_a, other_b, other_c = draw_pinned(2048, 2048, 2048)
    plan = plan_relayed(twin_executor, *shape)
    beside = choose_plan_on(
        GemmProblem(2048, 2048, 2048, memory="pinned"), plan.profile, PlanOptions(f=0), (1,)
    )
    wanted, stop, wrong = other_a @ other_b, threading.Event(), []

    def compute() -> None:
        while not stop.is_set():
            twin_executor.run(beside, other_a, other_b, poison(other_c))
            if not np.array_equal(other_c, wanted):
                wrong.append(True)

    thread = threading.Thread(target=compute)
    thread.start()
    try:
        expected = a @ b
        for _ in range(10):
            twin_executor.run(plan, a, b, poison(c))
            assert np.array_equal(c, expected)
    finally:
        stop.set()
        thread.join()
    assert not wrong


@pytest.mark.gpu
@pytest.mark.parametrize(
    "changes", [{"allow_access": lambda *_: False}, {"SLOTS": 1 << 20}], ids=["access", "memory"]
)
def test_without_access_or_memory_of_the_relay_a_product_uses_its_own_link(
    kernel_cache, relayed, monkeypatch, changes
):
    for name, value in changes.items():
        monkeypatch.setattr(relay, name, value)
    a, b, c = draw_pinned(3000, 4096, 512)
    with Executor(cache_dir=kernel_cache, devices=select_devices("0,0")) as executor:
        executor.run(plan_relayed(executor, 3000, 4096, 512), a, b, c)
    assert np.array_equal(c, a @ b)
    assert relayed == [1]


@pytest.mark.gpu
def test_after_a_failure_the_relay_can_be_used_again(twin_executor, monkeypatch):
    a, b, c = draw_pinned(3000, 4096, 512)
    plan = plan_relayed(twin_executor, 3000, 4096, 512)

    def fail(*_):
        raise DeviceFailure("no memory")

    with monkeypatch.context() as patch:
        patch.setattr(Relay, "open", fail)
        with pytest.raises(ExecutionError, match="no memory"):
            twin_executor.run(plan, a, b, c)
    twin_executor.run(plan, a, b, c)
    assert np.array_equal(c, a @ b)


@pytest.mark.gpu
@pytest.mark.serial
def test_a_relay_adds_the_rate_of_its_link(kernel_cache):
    """By at most a sixth less than that by which copies alone are faster over both links."""
    if len(list_devices()) < 2:
        pytest.skip("this machine has one GPU")
    m, n, k = 16384, 16384, 256  # bound by copies out
    a, b, c = draw_pinned(m, n, k)
    with Executor(cache_dir=kernel_cache, devices=select_devices("0,1")) as executor:
        relayed = plan_relayed(executor, m, n, k)
        alone = choose_plan_on(relayed.problem, relayed.profile, PlanOptions(f=0), (0,))

        def measure(plan):
            executor.run(plan, a, b, c)
            return median(executor.run(plan, a, b, c).total_seconds for _ in range(5))

        gain = measure(alone) / measure(relayed)
    one, both = (measure_joint_rates(links, 256 << 20, 3) for links in ([0], [0, 1]))
    most = both.out_bytes_per_second / one.out_bytes_per_second
    assert gain > 5 / 6 * most
