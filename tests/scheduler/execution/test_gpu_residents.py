"""A stored B that is used again becomes resident, and is never mistaken for another.

The GPUs compute in host memory, with the real list of residents. The tests marked `gpu` run on a
GPU, or on two pipelines of one.
"""

import threading
import time

import numpy as np
import pytest

from tests.matrices import draw_whole, poison
from tests.scheduler.execution.host_pipeline import HostPipeline
from tests.scheduler.profiles import find_executor_profile, find_preset_profile
from wavetrim.kernels.device import select_devices
from wavetrim.kernels.transfer.pinned import pin_matrix
from wavetrim.scheduler import product
from wavetrim.scheduler.engine.messages import Operand, RunRequest
from wavetrim.scheduler.engine.run import Runner
from wavetrim.scheduler.errors import ExecutionError
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.execution.watchdog import Watchdog
from wavetrim.scheduler.options import NO_OPTIONS, PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan_on
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.product import EngineProduct

SIDE = 2048


class Engine:
    """Computes products as an engine does, without its sockets."""

    def __init__(self, executor, profile):
        self.executor, self.profile = executor, profile
        self.runner = Runner(executor, lambda _: profile)

    def multiply(self, a, b, key, *, options=NO_OPTIONS, verify=False):
        """A·B, and whether the plan had B resident."""
        out = poison(self.make((len(a), b.shape[1]), a.dtype))
        place = Operand(1, 0, *out.shape, "float32")
        request = RunRequest("job", place, place, None, place, options=options, verify=verify)
        product = EngineProduct(a, b, None, out, 1.0, 0.0)
        event = self.runner.run_product(request, product, b_key=key)
        self.seconds = event["timings"]["total_seconds"]
        return out, event["plan"]["resident"]

    make = staticmethod(np.empty)


@pytest.fixture
def engine(open_executor, monkeypatch):
    """An engine whose GPU has room for three square matrices."""
    monkeypatch.setattr(HostPipeline, "resident_bytes", 3 * SIDE * SIDE * 4)
    monkeypatch.setattr(product, "is_pinned", lambda _matrix: True)
    return Engine(open_executor(gpus=1), find_preset_profile("H200", cpu_threads=2))


@pytest.fixture
def gpu_engine(kernel_cache):
    with Executor(cache_dir=kernel_cache, devices=select_devices("0")) as executor:
        made = Engine(executor, find_executor_profile(executor))
        made.make = lambda shape, dtype: pin_matrix(*shape, dtype)
        yield made


def draw(rows=SIDE, columns=SIDE, seed=1, make=np.empty):
    """A whole matrix in memory that `make` makes."""
    drawn = make((rows, columns), np.float32)
    drawn[...] = draw_whole(rows, columns, seed)
    return drawn


def check_many_jobs_of_a_few_matrices(engine, **asked):
    """Multiply by random matrices while some are deleted; returns how often B was resident."""
    random, there = np.random.default_rng(5), 0
    a = draw(16, make=engine.make)
    stored = {f"matrix {seed}": draw(seed=seed, make=engine.make) for seed in range(5)}
    for number in range(60):
        key = str(random.choice([*stored]))
        out, resident = engine.multiply(a, stored[key], key, **asked)
        assert np.array_equal(out, a @ stored[key])
        there += resident
        if number % 12 == 11:
            engine.executor.gpus.forget(key)
            del stored[key]
            stored[f"matrix {100 + number}"] = draw(seed=100 + number, make=engine.make)
    return there


def test_the_second_product_makes_b_resident_and_later_ones_use_it(engine):
    a, b = draw(16), draw(seed=2)
    seen = [engine.multiply(a, b, "b")[1] for _ in range(4)]
    assert seen == [False, True, True, True]
    (told,) = engine.executor.gpus.describe_residents()
    assert (told["index"], told["operands"], told["size_bytes"]) == (0, 1, b.nbytes)
    assert (told["fetches"], told["uses"]) == (1, 3)
    assert np.array_equal(engine.multiply(a, np.zeros_like(b), "b")[0], a @ b), (
        "computed with the resident B"
    )


def test_products_are_right_while_matrices_come_and_go(engine):
    assert check_many_jobs_of_a_few_matrices(engine) > 10
    assert engine.executor.gpus.describe_residents()[0]["evictions"] > 0


@pytest.mark.gpu
def test_products_on_a_gpu_are_right_while_matrices_come_and_go(gpu_engine):
    assert check_many_jobs_of_a_few_matrices(gpu_engine, options=PlanOptions(f=0)) > 20


def test_a_resident_b_that_fails_the_check_is_forgotten(engine):
    a, b = draw(16), draw(seed=2)
    engine.multiply(a, b, "b")
    engine.multiply(a, b, "b")
    (gpu,) = engine.executor.gpus.pipelines
    gpu.residents.use("b").memory[5, 7] += 1000
    assert not np.array_equal(engine.multiply(a, b, "b")[0], a @ b)
    out, resident = engine.multiply(a, b, "b", verify=True)
    assert resident
    assert np.array_equal(out, a @ b)
    assert "b" not in gpu.residents


def test_a_gpu_that_fails_to_fetch_fails_the_product(engine, monkeypatch):
    a, b = draw(16), draw(seed=2)
    engine.multiply(a, b, "b")
    monkeypatch.setattr(HostPipeline, "fails", True)
    with pytest.raises(ExecutionError, match="the GPU is lost"):
        engine.multiply(a, b, "b")


def test_the_wait_for_a_busy_gpu_is_no_lack_of_progress(engine):
    """Another product's part may be in the GPU's thread for longer than a stall."""
    gpus, ended = engine.executor.gpus, threading.Event()
    stalled = []
    gpus._watchdog = Watchdog(0.3, stalled.append)
    busy = gpus.threads[0].submit(ended.wait)
    threading.Timer(0.6, ended.set).start()
    assert gpus.keep("b", draw(64), (0,))
    busy.result()
    assert stalled == []


@pytest.mark.gpu
def test_two_gpus_that_share_rows_each_have_b_resident(kernel_cache):
    with Executor(cache_dir=kernel_cache, devices=select_devices("0,0")) as executor:
        profile = find_executor_profile(executor)
        a, b, c = (draw(3000, 3000, seed, lambda s, t: pin_matrix(*s, t)) for seed in range(3))
        problem = GemmProblem(3000, 3000, 3000, memory="pinned", b_resident=True)
        assert executor.gpus.keep("b", b, (0, 1))
        for f in (0, 300):
            plan = choose_plan_on(problem, profile, PlanOptions(f=f), (0, 1))
            assert len(plan.gpu_parts) == 2
            poison(c)
            wrong = b if f else np.full_like(b, 99)  # the CPU reads B where it lies
            executor.run(plan, a, wrong, c, b_key="b")
            assert np.array_equal(c, a @ b)
        assert [one["uses"] for one in executor.gpus.describe_residents()] == [2, 2]


@pytest.mark.gpu
def test_b_may_be_forgotten_while_a_product_uses_it(gpu_engine):
    executor, make = gpu_engine.executor, gpu_engine.make
    a, b, c = draw(8192, 4096, 1, make), draw(4096, 8192, 2, make), draw(8192, 8192, 3, make)
    problem = GemmProblem(8192, 8192, 4096, memory="pinned", b_resident=True)
    plan = choose_plan_on(problem, gpu_engine.profile, PlanOptions(f=0), (0,))
    for _ in range(3):
        assert executor.gpus.keep("b", b, (0,))
        poison(c)
        threading.Timer(0.003, executor.gpus.forget, ("b",)).start()
        executor.run(plan, a, b, c, b_key="b")
        assert np.array_equal(c[::97], a[::97] @ b)
        time.sleep(0.01)
        assert executor.gpus.find_holders("b") == []
