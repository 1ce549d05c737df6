"""The check passes right products and catches a single wrong element."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavetrim.scheduler.verify import verify_product

FLOATS = ("float16", "float32", "float64")
INTEGERS = ("int8", "uint8", "int16", "int32", "int64", "uint64")


def make_operands(m, n, k, dtype, seed=0):
    rng = np.random.default_rng(seed)
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        return [
            rng.integers(info.min, info.max, shape, dtype, endpoint=True)
            for shape in ((m, k), (k, n), (m, n))
        ]
    return [rng.standard_normal(shape).astype(dtype) for shape in ((m, k), (k, n), (m, n))]


def compute(a, b, c, alpha, beta):
    if np.issubdtype(a.dtype, np.integer):
        return (a.dtype.type(alpha) * (a @ b) + a.dtype.type(beta) * c).astype(a.dtype)
    wide = np.float32 if a.dtype == np.float16 else a.dtype
    return (alpha * (a.astype(wide) @ b.astype(wide)) + beta * c.astype(wide)).astype(a.dtype)


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (7, 13, 5), (129, 127, 257), (3, 500, 1)])
def test_right_products_pass(dtype, m, n, k):
    a, b, c = make_operands(m, n, k, dtype)
    out = compute(a, b, c, 2, 3)
    outcome = verify_product(a, b, c, out, alpha=2, beta=3)
    assert outcome.passed, outcome
    assert outcome.rows_checked == m


@given(st.data())
def test_one_wrong_element_is_caught(data):
    dtype = data.draw(st.sampled_from(("float32", "float64", "int32")))
    m, n, k = (data.draw(st.integers(1, 90)) for _ in range(3))
    a, b, c = make_operands(m, n, k, dtype, data.draw(st.integers(0, 99)))
    out = compute(a, b, c, 1, 0)
    row, column = data.draw(st.integers(0, m - 1)), data.draw(st.integers(0, n - 1))
    scale = 1 if dtype == "int32" else np.abs(a[row]).astype(float) @ np.abs(b[:, column])
    out[row, column] += np.dtype(dtype).type(scale)
    assert not verify_product(a, b, None, out).passed


def test_c_is_not_read_when_beta_is_zero():
    a, b, _ = make_operands(20, 30, 40, "float64")
    c = np.full((20, 30), np.nan)
    assert verify_product(a, b, c, a @ b, beta=0.0).passed


def test_an_infinity_must_be_where_the_reference_has_one():
    a, b, _ = make_operands(20, 30, 40, "float32")
    a[3, 5] = np.inf
    with np.errstate(invalid="ignore"):
        out = a @ b
    assert verify_product(a, b, None, out).passed
    out[4, 6] = np.nan
    assert not verify_product(a, b, None, out).passed


def test_float16_may_overflow_where_its_sums_do():
    a = np.full((4, 300), 200, np.float16)
    b = np.full((300, 5), 200, np.float16)
    out = np.full((4, 5), np.inf, np.float16)
    assert verify_product(a, b, None, out).passed


def test_an_unwritten_product_fails():
    a, b, _ = make_operands(64, 64, 64, "float32")
    assert not verify_product(a, b, None, np.zeros((64, 64), np.float32)).passed
