"""Products with a check: wrong rows are computed again, on the device that did not compute them."""

import numpy as np
import pytest

from tests.matrices import FLOATS, make_matrix
from tests.scheduler.profiles import plan_on
from wavetrim.kernels.device import list_devices
from wavetrim.scheduler.check.checked import compute_checked
from wavetrim.scheduler.check.verify import ProductCheck
from wavetrim.scheduler.errors import ExecutionCancelled, VerificationFailed
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.execution.rows import Hooks
from wavetrim.scheduler.product import EngineProduct

M, N, K = 300, 280, 260


class Faulty(Executor):
    """An executor whose products are damaged: the first ones, or all."""

    damaged_rows = ()
    damages = 1

    def run(self, plan, a, b, c, **options):
        """As `Executor.run`, then change an element of some rows."""
        timings = super().run(plan, a, b, c, **options)
        if self.damages > 0:
            self.damages -= 1
            for row in self.damaged_rows:
                c[row, 3] += 100
        return timings


@pytest.fixture
def cpu(kernel_cache):
    with Faulty(cache_dir=kernel_cache, cpu_threads=2) as executor:
        yield executor


@pytest.fixture
def gpu(kernel_cache):
    with Faulty(cache_dir=kernel_cache, devices=list_devices()) as executor:
        yield executor


def make_product(dtype, *, beta=0.0):
    a, b = make_matrix(M, K, dtype, seed=1), make_matrix(K, N, dtype, seed=2)
    c = make_matrix(M, N, dtype, seed=3) if beta else None
    out = np.full((M, N), 77, dtype) if c is None else c.copy()
    return EngineProduct(a, b, c, out, 2.0, beta)


def compute(executor, product, *, told=None, **options):
    dtype = str(product.out.dtype)

    def plan_gpu(rows):
        return plan_on(executor, (rows, N, K), dtype, f=0)

    _, verification = compute_checked(
        product,
        plan_on(executor, (M, N, K), dtype, **options),
        executor,
        choose_gpu_plan=plan_gpu if executor.devices else None,
        hooks=Hooks(changes=None if told is None else lambda: told.append("changes")),
    )
    assert ProductCheck(product).compare().passed
    return verification


@pytest.mark.parametrize("dtype", [*FLOATS, "int32"])
@pytest.mark.parametrize("beta", [0.0, 3.0])
def test_wrong_rows_are_computed_again_and_reported(cpu, dtype, beta):
    cpu.damaged_rows = (0, 1, 150, 299)
    told = []
    verification = compute(cpu, make_product(dtype, beta=beta), told=told)
    assert verification.passed
    assert verification.wrong_rows == cpu.damaged_rows
    assert verification.recomputed_on == "cpu"
    assert verification.seconds > 0
    assert told == ["changes"]


def test_a_right_product_is_not_computed_again(cpu):
    told = []
    verification = compute(cpu, make_product("float32"), told=told)
    assert verification.wrong_rows == ()
    assert verification.recomputed_on is None
    assert told == []


def test_a_product_that_stays_wrong_is_refused(cpu, monkeypatch):
    multiply = cpu.pool.multiply

    def multiply_wrongly(a, b, c, **options):
        seconds = multiply(a, b, c, **options)
        c[0, 0] += 100
        return seconds

    cpu.damaged_rows = (5,)
    monkeypatch.setattr(cpu.pool, "multiply", multiply_wrongly)
    with pytest.raises(VerificationFailed, match="1 rows wrong, the first is row 0"):
        compute(cpu, make_product("float32"))


def test_a_cancel_while_rows_are_computed_again_is_the_executions(cpu):
    cpu.damaged_rows = (5,)
    told = []
    with pytest.raises(ExecutionCancelled):
        compute_checked(
            make_product("float32"),
            plan_on(cpu, (M, N, K)),
            cpu,
            choose_gpu_plan=None,
            hooks=Hooks(changes=lambda: told.append("changes"), cancelled=lambda: bool(told)),
        )


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("f", "device"), [(0, "cpu"), (M, "gpu"), (100, "cpu and gpu")], ids=["gpu", "cpu", "split"]
)
@pytest.mark.parametrize("dtype", FLOATS)
def test_wrong_rows_go_to_the_other_device(gpu, dtype, f, device):
    gpu.damaged_rows = (1, 199, 200, 298)
    verification = compute(gpu, make_product(dtype, beta=1.0), f=f)
    assert verification.wrong_rows == gpu.damaged_rows
    assert verification.recomputed_on == device


@pytest.mark.gpu
def test_wrong_rows_of_a_type_without_a_gpu_kernel_are_recomputed_on_the_cpu(gpu):
    gpu.damaged_rows = (7,)
    verification = compute(gpu, make_product("int64"), f=M)
    assert (verification.wrong_rows, verification.recomputed_on) == ((7,), "cpu")
