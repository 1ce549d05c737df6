"""Which products take the way of an earlier one, beside a GPU."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from tests.processes import expect_output, run_python
from wavetrim.kernels.transfer.pinned import locate
from wavetrim.scheduler.local.known import UNSTOPPED_SECONDS, KnownProducts, ProductKind
from wavetrim.scheduler.local.machine import LocalMachine, LocalOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.corrections import LEAST_RUNS, Corrections
from wavetrim.scheduler.profile.store import find_profile


def test_a_kind_is_that_of_plain_operands_of_its_shapes_that_share_no_memory():
    a, b, c = (np.zeros(shape, "float32") for shape in ((5, 3), (3, 7), (5, 7)))
    kind = ProductKind(a.shape, b.shape, a.dtype, 1.0, is_pinned=False, device=None, crowd="quiet")
    operands, memory = kind.describe_operands(), np.empty(50, "float32")
    assert operands.locate(a, b, c) == locate(a, b, c)[0]
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
    machine = LocalMachine(LocalOptions(tmp_path, devices="none", cpu_threads=2))
    yield machine
    machine.end()


@pytest.fixture
def known(machine):
    return KnownProducts(machine, machine.planned)


def ask(known, *, f="auto", device=None):
    rng = np.random.default_rng(1)
    a, b = rng.random((997, 701)), rng.random((701, 1003))
    return known.ask(a, b, np.full((997, 1003), np.nan), alpha=1.0, beta=0.0, f=f, device=device)


def test_all_rows_of_one_device_are_another_kind_than_those_that_the_planner_divides(known):
    assert ask(known).kind.device is None
    assert ask(known, f=997).kind == ask(known, device="cpu").kind != ask(known).kind
    assert ask(known, f=0).kind == ask(known, device="gpu").kind != ask(known, f=997).kind
    for options in ({"f": 5}, {"f": 0, "device": "cpu"}, {"f": True}, {"device": np.arange(3)}):
        assert ask(known, **options) is None


def keep(known):
    """Keep the way of the CPU alone; returns its plan."""
    problem = GemmProblem(997, 1003, 701, "float64")
    assumed = find_profile("cpu", devices=(), directory=None, cpu_threads=2)
    plan = choose_plan(problem, replace(assumed, corrections=Corrections()))
    assert plan.predicted.total_seconds < UNSTOPPED_SECONDS
    known.keep_plan(ask(known).kind, plan)
    return plan


def find_factor(plan):
    (factor,) = plan.profile.corrections.list_all().values()
    return factor


def test_a_short_way_of_the_cpu_computes_and_its_time_is_noted(known):
    assert not known.multiply(ask(known)), "no product of its kind was computed"
    plan, done = keep(known), 0
    for _ in range(20):
        asked = ask(known)
        if known.multiply(asked):
            done += 1
            np.testing.assert_allclose(asked.c, asked.a @ asked.b, rtol=1e-12)
    assert 16 <= done < 20, "some are chosen anew"
    assert find_factor(plan).runs >= LEAST_RUNS, "their times are noted"


def test_to_wait_for_another_thread_is_no_time_of_a_product(known, machine):
    plan = keep(known)
    for _ in range(LEAST_RUNS + 1):  # the first run is not noted
        asked = ask(known)
        with ThreadPoolExecutor(1) as pool:
            with machine.lock:
                product = pool.submit(known.multiply, asked)
                time.sleep(1)
            assert product.result()
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
