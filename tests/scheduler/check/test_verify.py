"""Right products pass their check; changes that rounding does not explain are caught.

Then wrong rows are computed again, on the device that did not compute them.
"""

import numpy as np
import pytest

from benchmarks import verify
from tests.matrices import FLOATS, make_matrix
from tests.scheduler.check.damage import DAMAGES, TYPES
from tests.scheduler.profiles import plan_on
from wavetrim.kernels.device import list_devices
from wavetrim.native.element_types import find_accumulator
from wavetrim.scheduler.check.checked import compute_checked
from wavetrim.scheduler.check.verify import ProductCheck, verify_product
from wavetrim.scheduler.errors import ExecutionCancelled, VerificationFailed
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.execution.rows import Hooks
from wavetrim.scheduler.product import EngineProduct


@pytest.mark.parametrize("dtype", TYPES)
def test_hardly_any_damage_passes(dtype, monkeypatch):
    """The benchmark counts it in thousands of products."""
    monkeypatch.setattr(verify, "SIZES", (64, 200))
    rows = list(verify.count_missed(dtype, 8))
    assert [(row["change"], row["tries"]) for row in rows] == [(name, 8) for name in DAMAGES]
    assert sum(row["missed"] for row in rows) <= 2, rows


@pytest.mark.parametrize("dtype", TYPES)
def test_right_products_of_special_values_pass(dtype):
    assert verify.count_false_alarms(dtype, 40)["false_alarms"] == 0


@pytest.mark.parametrize("dtype", FLOATS)
def test_right_products_pass_in_any_layout_and_of_equal_elements(dtype):
    random = np.random.default_rng(4)
    a = random.standard_normal((600, 700)).astype(dtype)
    b = random.standard_normal((700, 1400)).astype(dtype)[:, ::2]
    a = np.asfortranarray(a)
    wide = find_accumulator(a.dtype).type
    out = (a.astype(wide) @ b.astype(wide)).astype(dtype)
    assert verify_product(a, b, None, out).passed
    a, b = np.full((300, 2000), 0.1, dtype), np.full((2000, 500), 0.1, dtype)
    terms = np.full(2000, a[0, 0].astype(wide) * b[0, 0].astype(wide), wide)
    for total in (np.add.accumulate(terms)[-1], np.sum(terms)):
        assert verify_product(a, b, None, np.full((300, 500), total, dtype)).passed


def test_wrong_infinities_and_nans_fail():
    random = np.random.default_rng(5)
    a, b = (random.standard_normal((40, 40)).astype(np.float32) for _ in range(2))
    a[3, 5] = np.inf
    out = a @ b
    assert verify_product(a, b, None, out).passed
    for row, value in ((4, np.nan), (4, np.inf), (3, 1.0), (3, -out[3, 6]), (3, np.nan)):
        wrong = out.copy()
        wrong[row, 6] = value
        outcome = verify_product(a, b, None, wrong)
        assert (outcome.passed, outcome.wrong_rows) == (False, (row,))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_a_wrong_part_fails_but_any_infinity_passes_for_another(dtype, order):
    a, b = (make_matrix(*shape, dtype, 5, order=order) for shape in ((300, 200), (200, 90)))
    out = a @ b
    outcome = verify_product(a, b, None, out)
    assert outcome.passed
    assert outcome.elements_checked == out.size
    out[17, 4] = np.conj(out[17, 4])
    assert verify_product(a, b, None, out).wrong_rows == (17,)
    a[3, 5] = np.inf
    with np.errstate(invalid="ignore"):
        out = a @ b
    for value in (out[3, 8], complex(np.nan, np.inf), complex(np.inf, -np.inf)):
        out[3, 8] = value
        assert verify_product(a, b, None, out).passed
    out[3, 8] = 1 + 1j
    assert verify_product(a, b, None, out).wrong_rows == (3,)


def test_a_large_product_with_whole_rows_wrong_fails():
    """No block is compared where all look alike, unless rounding cannot explain their errors."""
    random = np.random.default_rng(8)
    a = random.standard_normal((128, 2304)).astype(np.float32)
    b = random.standard_normal((2304, 4096)).astype(np.float32)
    out = a @ b
    outcome = verify_product(a, b, None, out)
    assert outcome.passed
    assert outcome.elements_compared < out.size / 1000  # one block may differ by chance
    noise = random.standard_normal(out.shape).astype(np.float32) * 48
    for rows in (slice(None), slice(0, 64), slice(96, 128)):  # all, half, and one panel
        for damaged in (np.zeros_like(out), noise):
            unwritten = out.copy()
            unwritten[rows] = damaged[rows]
            assert not verify_product(a, b, None, unwritten).passed, rows


def test_a_verification_says_how_much_was_checked_and_what_is_detectable():
    random = np.random.default_rng(6)
    a, b = (random.standard_normal((1024, 1024)).astype(np.float32) for _ in range(2))
    out = a @ b
    said = verify_product(a, b, None, out).as_dict()
    assert said["elements_checked"] == 1024**2
    assert 0 < said["elements_compared"] < 1024
    assert said["caught_probability"] > 0.99
    out[7, 7] += said["detectable_change"] * np.sqrt(np.mean(out[7] ** 2)) * 2
    assert verify_product(a, b, None, out).wrong_rows == (7,)


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
