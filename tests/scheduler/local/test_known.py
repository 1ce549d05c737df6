"""Which products take the way of an earlier one."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from tests.processes import expect_output, run_python
from wavetrim.native.plain import find_addresses
from wavetrim.scheduler.local.known import UNSTOPPED_SECONDS, ProductKind
from wavetrim.scheduler.local.machine import LocalMachine
from wavetrim.scheduler.options import NO_OPTIONS, MachineOptions
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.corrections import LEAST_RUNS, Corrections
from wavetrim.scheduler.profile.store import find_profile


def test_a_kind_is_that_of_plain_operands_of_its_shapes_that_share_no_memory():
    a, b, c = (np.zeros(shape, "float32") for shape in ((5, 3), (3, 7), (5, 7)))
    kind = ProductKind(a.shape, b.shape, a.dtype, 1.0, is_pinned=False, device=None, crowd="quiet")
    operands, memory = kind.describe_operands(), np.empty(50, "float32")
    assert operands.locate(a, b, c) == find_addresses(a, b, c)
    overlapping = memory[:35].reshape(5, 7), memory[20:41].reshape(3, 7)
    for others in (
        (a.astype("float64"), b, c),
        (np.asfortranarray(a), b, c),
        (a, b, c[:4]),
        (a, overlapping[1], overlapping[0]),
        (a, b, np.empty((5, 14), "float32")[:, ::2]),
    ):
        assert operands.locate(*others) is None


@pytest.fixture
def machine(tmp_path):
    machine = LocalMachine(MachineOptions(tmp_path, devices="none", cpu_threads=2))
    yield machine
    machine.end()


RNG = np.random.default_rng(1)
A, B = RNG.random((997, 701)), RNG.random((701, 1003))


def multiply(machine, *, f="auto", device=None, out=None):
    """C and the kind, as `KnownProducts.multiply`."""
    return machine.known.multiply(A, B, out, alpha=1.0, beta=0.0, f=f, device=device)


def find_kind(machine, **options):
    done, kind = multiply(machine, **options)
    assert done is None
    return kind


def test_all_rows_of_one_device_are_another_kind_than_those_that_the_planner_divides(machine):
    best, on_cpu, on_gpu = (find_kind(machine, device=device) for device in (None, "cpu", "gpu"))
    assert best.device is None
    assert find_kind(machine, f=997) == on_cpu != best
    assert find_kind(machine, f=0) == on_gpu != best
    for options in ({"f": 5}, {"f": 0, "device": "cpu"}, {"f": True}, {"device": np.arange(3)}):
        assert find_kind(machine, **options) is None


def keep(machine):
    """Keep the way of the CPU alone, whose predictions its runs correct; returns its plan."""
    assumed = find_profile("cpu", devices=(), directory=None, cpu_threads=2)
    machine.planned._cpu_profile = replace(assumed, corrections=Corrections())
    plan = machine.planned.choose(GemmProblem(997, 1003, 701, "float64"), NO_OPTIONS, None, "quiet")
    assert plan.predicted.total_seconds < UNSTOPPED_SECONDS
    machine.known.keep_plan(find_kind(machine), plan)
    return plan


def find_factor(plan):
    (factor,) = plan.profile.corrections.list_all().values()
    return factor


@pytest.mark.parametrize("out", [None, np.empty((997, 1003))])
def test_a_way_of_the_cpu_computes_and_its_time_is_noted(machine, out):
    plan = keep(machine)
    for _ in range(LEAST_RUNS + 1):  # the first run is not noted
        done, _ = multiply(machine, out=out)
        np.testing.assert_allclose(done, A @ B, rtol=1e-12)
        done.fill(np.nan)
    assert (done is out) == (out is not None)
    assert find_factor(plan).runs >= LEAST_RUNS, "their times are noted"


def test_a_way_is_left_soon_after_runs_have_changed_what_decides(machine):
    plan = keep(machine)
    for _ in range(LEAST_RUNS):
        plan.profile.corrections.note(plan.kinds[1].name, 1.0, 10.0)
    ways = [multiply(machine)[0] is not None for _ in range(8)]
    assert ways == [True] * 3 + [False] + [True] * 3 + [False]


def test_to_wait_for_another_thread_is_no_time_of_a_product(machine):
    plan = keep(machine)
    for _ in range(LEAST_RUNS + 1):  # the first run is not noted
        with ThreadPoolExecutor(1) as pool:
            with machine.lock:
                product = pool.submit(multiply, machine)
                time.sleep(1)
            assert product.result()[0] is not None
    assert find_factor(plan).reported * plan.uncorrected.total_seconds < 0.9


@pytest.mark.gpu
def test_products_beside_a_gpu_leave_no_thread_of_blas_awake():
    awake = run_python("""
import statistics, time
from pathlib import Path
import numpy as np, wavetrim

def count_running():
    states = [one.read_text().rpartition(")")[2].split()[0]
        for one in Path("/proc/self/task").glob("*/stat")]
    return states.count("R")

sizes = (1192, 89, 18), (24, 1666, 64), (300, 300, 300), (700, 700, 700), (150, 2300, 4700)
products = [(np.ones((m, k)), np.ones((k, n))) for m, n, k in sizes]
counts = []
for a, b in products * 20:
    wavetrim.matmul(a, b)
    time.sleep(0.005)  # threads of pools sleep by then, and BLAS's not for 0.1 s
    counts.append(count_running())
print(statistics.median(counts))
""")
    assert float(awake.stdout) <= 2, awake.stderr


@pytest.mark.gpu
def test_a_split_that_is_known_gives_the_same_product():
    expect_output(
        """
import numpy as np, wavetrim
from tests.matrices import assert_product
from wavetrim.kernels.transfer.pinned import pin_matrix

m, n, k = 20_000, 4000, 32
assert 0 < wavetrim.plan(m, n, k, memory="pinned").f < m
rng = np.random.default_rng(2)
a, b, c = (pin_matrix(*shape, "float32") for shape in ((m, k), (k, n), (m, n)))
a[:], b[:] = rng.random(a.shape), rng.random(b.shape)
for rows in (slice(0, 100), slice(-100, None), slice(9_000, 9_100)) * 3:
    c.fill(np.nan)
    wavetrim.matmul(a, b, out=c)
    assert not np.isnan(c).any()
    assert_product(c[rows], a[rows], b)
print("right")
""",
        prints="right\n",
        WAVETRIM_DEVICES="0",
    )
