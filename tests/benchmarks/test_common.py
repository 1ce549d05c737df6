"""What all benchmarks share: turns, time, operands and their check."""

import math

import numpy as np
import pytest

from benchmarks.common.freivalds import FreivaldsCheck
from benchmarks.common.operands import draw_operands
from benchmarks.common.shapes import DTYPES


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1, 1), (1500, 700, 900), (1, 3000, 3000), (3000, 3000, 1)])
def test_right_products_pass_and_others_do_not(shape, dtype):
    operands = draw_operands(shape, dtype)
    assert operands.shape == shape
    assert operands.dtype == dtype
    assert np.isnan(operands.c).all()
    assert -1 <= operands.a.min() <= operands.a.max() <= 1
    check = FreivaldsCheck(operands)
    assert not check.find_error(operands.c) <= 1.0
    product = operands.a @ operands.b
    assert check.find_error(product) <= 0.5
    assert check.find_error(product[:, :-1]) == math.inf
    product[-1, -1] += 1.0
    assert check.find_error(product) > 1.0


def test_products_in_tf32_do_not_pass():
    operands = draw_operands((512, 2048, 2048), "float32")

    def cut(matrix):
        return (matrix.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)

    assert FreivaldsCheck(operands).find_error(cut(operands.a) @ cut(operands.b)) > 1.0
