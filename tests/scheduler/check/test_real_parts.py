"""A complex product as a real one of twice the length and width, which is made in parts."""

from typing import Literal

import numpy as np
import pytest

from tests.matrices import make_matrix
from wavetrim.scheduler.check.checksums import ALONE
from wavetrim.scheduler.check.real_parts import (
    count_real_columns,
    find_right_maxima,
    sum_right,
    take_column,
    take_columns,
    view_real,
)
from wavetrim.scheduler.check.verify import verify_product


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_real_product_has_the_parts_of_the_complex_one(order: Literal["C", "F"]) -> None:
    a, b = (make_matrix(9, 9, "complex128", seed, order=order) for seed in (1, 2))
    whole = take_columns(b, slice(0, count_real_columns(b)))
    assert whole.shape == (18, 18)
    np.testing.assert_allclose(view_real(a) @ whole, view_real(a @ b), atol=1e-14)
    assert np.array_equal(take_columns(b, slice(4, 8)), whole[:, 4:8])
    assert all(np.array_equal(take_column(b, j), whole[:, j]) for j in range(18))
    assert np.array_equal(find_right_maxima(b, ALONE.block_sums), np.abs(whole).max(axis=0))


@pytest.mark.parametrize("magnitudes", [False, True])
def test_block_sums_are_those_of_the_whole_real_matrix(magnitudes: bool) -> None:
    b = make_matrix(7, 11, "complex128", 3)
    weights = np.abs(make_matrix(1, 22, "float64", 4)[0])
    whole = take_columns(b, slice(0, 22))
    terms = (np.abs(whole) if magnitudes else whole) * weights
    found = sum_right(b, weights, 4, ALONE.block_sums, magnitudes=magnitudes)
    np.testing.assert_allclose(found, np.add.reduceat(terms, range(0, 22, 4), axis=1))


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_a_wrong_part_fails_but_any_infinity_passes_for_another(dtype: str) -> None:
    a, b = make_matrix(300, 200, dtype, 5), make_matrix(200, 90, dtype, 6)
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
