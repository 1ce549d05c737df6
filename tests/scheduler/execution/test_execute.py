"""Execution: both parts into one C, timings, progress, cancellation, failures."""

import time

import numpy as np
import pytest

from tests.matrices import draw_operands, draw_pinned, is_poison, make_matrix, poison
from tests.scheduler.profiles import find_executor_profile, plan_on
from wavetrim.kernels.device import list_devices
from wavetrim.scheduler.check.verify import verify_product
from wavetrim.scheduler.errors import ExecutionCancelled
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.execution.rows import Hooks
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan_on
from wavetrim.scheduler.problem import GemmProblem


@pytest.fixture(scope="module")
def gpu_executor(kernel_cache):
    with Executor(cache_dir=kernel_cache, devices=list_devices()) as executor:
        yield executor


def check_final_rows(executor, plan, a, b, before, beta):
    """Run a plan of whole operands; check rows when they are final, and what is reported last.

    Returns the numbers of final rows, and the timings.
    """
    expected = a @ b + (beta * before if beta else 0)
    c = before.copy() if beta else poison(before.copy())
    counts, seen = [], []

    def check(final):
        counts.append(sum(map(len, final)))
        for rows in final:
            part = slice(rows.start, rows.stop)
            assert np.array_equal(c[part], expected[part])

    timings = executor.run(plan, a, b, c, beta=beta, hooks=Hooks(progress=seen.append, final=check))
    assert np.array_equal(c, expected)
    assert timings.f_actual == plan.f
    assert seen[-1].share == pytest.approx(1.0)
    assert seen[-1].gpu == pytest.approx(len(c) - plan.f)
    return counts, timings


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("options", "dtype"),
    [
        ({"kernel": "register"}, "float32"),
        ({"kernel": "bulk", "sms": 8}, "float32"),
        ({"kernel": "tensor"}, "float64"),
        ({"kernel": "cublas"}, "float32"),
    ],
)
def test_a_kernel_is_compiled_before_the_clock_starts(tmp_path, options, dtype):
    a = make_matrix(512, 512, dtype, seed=1)
    c = np.empty_like(a)
    with Executor(cache_dir=tmp_path, devices=list_devices()) as executor:
        plan = plan_on(executor, (512, 512, 512), dtype, f=0, **options)
        began = time.perf_counter()
        timings = executor.run(plan, a, a, c)
        seconds = time.perf_counter() - began
    assert verify_product(a, a, None, c).passed
    if not plan.spec.is_cublas:
        assert list(tmp_path.glob("*.cubin"))
        assert timings.total_seconds < seconds / 2


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", ["register", "cublas"])
@pytest.mark.parametrize(("executor", "gpus"), [("gpu_executor", 1), ("twin_executor", 2)])
def test_a_short_product_is_right_and_reported_each_time(request, executor, gpus, kernel):
    """From the second time on its commands are kept, also those of two GPUs."""
    m, n, k = 700, 300, 200
    executor = request.getfixturevalue(executor)
    problem, profile = GemmProblem(m, n, k, memory="pinned"), find_executor_profile(executor)
    plan = choose_plan_on(problem, profile, PlanOptions(f=0, kernel=kernel), range(gpus))
    assert plan.is_short
    assert len(plan.gpu_parts) == gpus
    for alpha, beta in ((1.0, 0.0), (1.0, 0.0), (1.0, 0.0), (2.0, 3.0), (2.0, 3.0), (0.0, 3.0)):
        a, b, c = draw_pinned(m, n, k)
        c[...] = before = np.arange(c.size, dtype=np.float32).reshape(c.shape) % 7
        expected, done, final = alpha * (a @ b) + beta * before, [], []
        timings = executor.run(
            plan, a, b, c, alpha=alpha, beta=beta,
            hooks=Hooks(
                progress=lambda rows: done.append((rows.gpu, rows.cpu)),  # noqa: B023
                final=final.append,
            ),
        )  # fmt: skip
        assert np.array_equal(c, expected)
        assert done[-1] == (m, 0.0)
        assert sum(map(len, final[-1])) == m
        assert 0 < timings.gpu_seconds <= timings.total_seconds
        assert [position for position, _ in timings.part_seconds] == [*range(gpus)]
    with pytest.raises(ExecutionCancelled):
        executor.run(plan, a, b, poison(c), hooks=Hooks(cancelled=lambda: True))
    assert is_poison(c).all()


@pytest.mark.gpu
@pytest.mark.parametrize("beta", [0.0, 2.0])
@pytest.mark.parametrize("is_long", [False, True])
@pytest.mark.parametrize("planned", [0.0, 0.1, 0.5, 0.98])
@pytest.mark.parametrize(
    "shape", [(3000, 1013, 509), (2000, 20_011, 129), (8192, 4096, 4096), (4096, 4096, 300)]
)
def test_rows_of_both_parts_are_reported_final_only_when_they_are(
    gpu_executor, monkeypatch, shape, planned, is_long, beta
):
    """Also where parts report while they compute, as those of long products do."""
    if is_long:
        monkeypatch.setattr("wavetrim.scheduler.execution.run.LONG_SECONDS", 0.0)
    m, n, k = shape
    plan = plan_on(gpu_executor, shape, f=int(planned * m))
    operands = draw_operands(m, n, k)
    counts, _ = check_final_rows(gpu_executor, plan, *operands, beta)
    assert counts
    assert max(counts) <= m


@pytest.mark.gpu
@pytest.mark.parametrize("beta", [0.0, 2.0])
def test_rows_computed_in_groups_of_columns_are_final_after_the_last_group(kernel_cache, beta):
    m, n, k = 3000, 6000, 2000
    operands = draw_operands(m, n, k)
    with Executor(
        cache_dir=kernel_cache, devices=list_devices(), gpu_memory_bytes=24 << 20
    ) as executor:
        plan = plan_on(executor, (m, n, k), f=0)
        counts, _ = check_final_rows(executor, plan, *operands, beta)
    assert counts[-1] == m


@pytest.mark.gpu
def test_both_parts_run_at_the_same_time(gpu_executor):
    side = 4096
    a, b = (make_matrix(side, side, "float32", seed=seed) for seed in (1, 2))
    c = np.zeros((side, side), np.float32)
    plan = plan_on(gpu_executor, a.shape + b.shape[1:], f=512)
    gpu_executor.run(plan, a, b, c)
    timings = gpu_executor.run(plan, a, b, c)
    assert timings.total_seconds < timings.gpu_seconds + timings.cpu_seconds
