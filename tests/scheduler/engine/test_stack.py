"""Stacks in the engine: one request, one plan of one product, and one answer."""

import time

import numpy as np
import pytest

from tests.limit import allow
from tests.matrices import make_matrix, poison
from tests.scheduler.engine.worker_process import read, write
from wavetrim.scheduler.engine.messages import RunRequest
from wavetrim.scheduler.options import PlanOptions


def draw(*shape, seed, dtype="float64"):
    rows = int(np.prod(shape[:-1]))
    return np.ascontiguousarray(make_matrix(rows, shape[-1], dtype, seed)).reshape(shape)


def make_request(folder, a, b, c=None, **options):
    """A request for a stack whose operands are saved in a folder."""
    out = poison(np.empty((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2],
                           b.shape[-1]), a.dtype))  # fmt: skip
    return RunRequest(
        job="job-1",
        a=write(folder, "a.npy", a),
        b=write(folder, "b.npy", b),
        c=None if c is None else write(folder, "c.npy", c),
        out=write(folder, "out.npy", out),
        **options,
    )


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("verify", [False, True])
@pytest.mark.parametrize("sizes", [(31, 17, 23), (300, 200, 190)])
def test_a_stack_has_one_plan_and_one_answer(shared, tmp_path, sizes, verify, order):
    m, k, n = sizes
    a, b = draw(5, m, k, seed=1), draw(5, k, n, seed=2)
    c = draw(m, n, seed=3)
    request = make_request(
        tmp_path, np.asarray(a, order=order), np.asarray(b, order=order), c,
        alpha=2.0, beta=-1.0, verify=verify,
    )  # fmt: skip
    told = shared.run(request)
    assert [one["type"] for one in told if one["type"] != "progress"] == ["planned", "succeeded"]
    plan, done = told[0]["plan"], told[-1]
    assert (plan["stack"], plan["f"]) == (5, m)
    assert done["timings"]["f_actual"] == 5 * m
    assert done["timings"]["total_seconds"] > 0
    if verify:
        assert done["verification"]["elements_checked"] == 5 * m * n
    np.testing.assert_allclose(read(request.out), 2 * (a @ b) - c, rtol=0, atol=1e-10)


def test_final_rows_are_those_of_all_products(shared, tmp_path):
    a = draw(12, 300, 300, seed=1)
    request = make_request(tmp_path, a, a, row_step=900)
    told = [one["final"] for one in shared.run(request) if one["type"] == "rows"]
    assert told == [[[0, 900]], [[0, 1800]], [[0, 2700]], [[0, 3600]]]


@pytest.mark.parametrize(("size", "products"), [(40, 10_000), (400, 20)])
def test_a_stack_is_cancelled_between_its_products(shared, tmp_path, size, products):
    a = np.ones((size, size), "int64")  # 64-bit integers have no fast product
    request = make_request(tmp_path, a, np.ones((products, size, size), "int64"))
    shared.send(request.as_message())
    shared.receive_until("planned")
    began = time.monotonic()
    shared.cancel("job-1")
    assert shared.receive_until("succeeded", "cancelled", "failed")[-1]["type"] == "cancelled"
    assert time.monotonic() - began < allow(2)


@pytest.mark.gpu
@pytest.mark.parametrize("verify", [False, True])
def test_the_gpu_computes_the_products_of_a_stack(start, tmp_path, verify):
    worker = start(device="0")
    worker.receive()
    a, b = draw(4, 700, 300, seed=1, dtype="float32"), draw(4, 300, 500, seed=2, dtype="float32")
    c = draw(700, 500, seed=3, dtype="float32")
    request = make_request(
        tmp_path, a, b, c, alpha=2.0, beta=-1.0, options=PlanOptions(f=100), verify=verify
    )
    done = worker.run(request)[-1]
    assert done["type"] == "succeeded", done
    plan, timings = done["plan"], done["timings"]
    assert (plan["stack"], plan["gpu_rows"], plan["f"]) == (4, 600, 100)
    assert timings["f_actual"] == 400
    assert timings["gpu_seconds"] > 0
    np.testing.assert_allclose(read(request.out), 2 * (a @ b) - c, rtol=0, atol=1e-3)
