"""Products without rows, columns or terms: like others at every door, as in process."""

import numpy as np
import pytest

import wavetrim
from tests.service.api.v2.test_infer import infer, make_client

SIZES = [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0), (0, 3, 0), (300, 200, 0)]
"""M, N, K."""


def make_operands(m, n, k, dtype):
    return np.ones((m, k), dtype), np.ones((k, n), dtype), np.full((m, n), 3, dtype)


@pytest.mark.parametrize("dtype", ["float32", "int32", "bfloat16"])
@pytest.mark.parametrize("sizes", SIZES)
def test_an_empty_product_in_one_call_is_as_in_process(client, sizes, dtype):
    a, b, c = make_operands(*sizes, dtype)
    product, details = client.matmul_with_details(a, b)
    np.testing.assert_array_equal(product, wavetrim.matmul(a, b))
    assert product.dtype == a.dtype
    assert details.f == sizes[0]
    out = np.empty_like(c)
    assert client.matmul(a, b, c=c, beta=2.0, out=out, verify=True) is out
    np.testing.assert_array_equal(out, wavetrim.matmul(a, b, c=c, beta=2.0))


@pytest.mark.parametrize("sizes", SIZES)
def test_an_empty_product_is_a_job_and_its_matrices_are_stored(client, sizes):
    a, b, c = make_operands(*sizes, "float64")
    stored = client.put(a)
    assert (stored.shape, client.get(stored).shape) == (a.shape, a.shape)
    job = client.submit(stored, b, c=c, beta=2.0)
    assert job.wait().state == "succeeded"
    np.testing.assert_array_equal(job.result(), 2 * c)
    assert job.status().plan["f"] == sizes[0]
    again = client.submit(stored, b)
    again.wait()
    np.testing.assert_array_equal(again.result(), 0 * c)


@pytest.mark.parametrize(
    ("a", "b", "c"),
    [
        ((0, 4), (4, 3), (0, 3)),
        ((3, 0), (0, 2), (3, 2)),
        ((3, 2), (2, 0), (3, 0)),
        ((0, 3, 2), (2, 4), (0, 3, 4)),
        ((0, 3, 2), (0, 2, 4), (0, 3, 4)),
        ((5, 3, 0), (5, 0, 4), (5, 3, 4)),
        ((5, 0, 3), (5, 3, 4), (5, 0, 4)),
    ],
)
@pytest.mark.parametrize("binary", [False, True])
def test_an_empty_product_by_the_open_inference_protocol(shared_server, a, b, c, binary):
    operands = (np.ones(shape, "float32") for shape in (a, b))
    found = infer(make_client(shared_server), *operands, binary=binary)
    np.testing.assert_array_equal(found, np.zeros(c))
