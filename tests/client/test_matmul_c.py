"""`Client.matmul` computes alpha·A·B + beta·C, in a chosen type, and verified."""

from typing import Any

import numpy as np
import pytest

from tests.matrices import assert_product, make_matrix


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_c_is_added_beta_times(client: Any, dtype: str) -> None:
    a, b, c = (make_matrix(*shape, dtype, 0) for shape in ((31, 20), (20, 11), (31, 11)))
    before = c.copy()
    product = client.matmul(a, b, c=c, alpha=2.0, beta=-3.0)
    assert_product(product, a, b, c, alpha=2.0, beta=-3.0)
    np.testing.assert_array_equal(c, before)


def test_c_may_be_out(client: Any) -> None:
    a, b, c = (make_matrix(*shape, "float32", 1) for shape in ((31, 20), (20, 11), (31, 11)))
    before = c.copy()
    assert client.matmul(a, b, c=c, beta=0.5, out=c) is c
    assert_product(c, a, b, before, beta=0.5)


def test_c_may_have_any_strides_and_promotes(client: Any) -> None:
    a, b = make_matrix(31, 20, "float32", 2), make_matrix(20, 11, "float32", 3)
    c = make_matrix(11, 62, "float64", 4).T[::2]
    product = client.matmul(a, b, c=c, beta=1.0)
    assert product.dtype == np.float64
    assert_product(product, a.astype("f8"), b.astype("f8"), c, beta=1.0)


def test_the_products_type_may_be_chosen(client: Any) -> None:
    a = make_matrix(31, 31, "float32", 5)
    product = client.matmul(a, a, dtype="float64")
    assert product.dtype == np.float64
    assert_product(product, a.astype("float64"), a.astype("float64"))


def test_a_verified_product_is_right(client: Any) -> None:
    a = make_matrix(31, 31, "float64", 6)
    assert_product(client.matmul(a, a, verify=True), a, a)
