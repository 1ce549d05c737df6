"""The CPU pool refuses operands that do not fit, and results that it cannot write."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from wavetrim.cpu.errors import CpuError, OperandError
from wavetrim.cpu.gemm import CpuPool

Matrix = NDArray[Any]


OpenPool = Callable[[int], CpuPool]


@pytest.mark.parametrize(
    ("a", "b", "c", "field"),
    [
        (np.ones((2, 3)), np.ones((4, 5)), np.ones((2, 5)), "b"),
        (np.ones((2, 3)), np.ones((3, 5)), np.ones((2, 6)), "c"),
        (np.ones((2, 3), np.float32), np.ones((3, 5)), np.ones((2, 5)), "a"),
        (np.ones((2, 3)), np.ones((3, 5), ">f8"), np.ones((2, 5)), "b"),
        (np.ones((2, 3), bool), np.ones((3, 5), bool), np.ones((2, 5), bool), "a"),
        (np.ones(3), np.ones((3, 5)), np.ones((1, 5)), "a"),
    ],
)
def test_operands_that_do_not_fit_are_refused(
    pool: CpuPool, a: Matrix, b: Matrix, c: Matrix, field: str
) -> None:
    with pytest.raises(OperandError) as refused:
        pool.multiply(a, b, c)
    assert refused.value.field == field


@pytest.mark.parametrize("side", [4, 300])
def test_a_result_that_shares_memory_with_an_operand_is_refused(pool: CpuPool, side: int) -> None:
    memory, b = np.ones((2 * side, side)), np.ones((side, side))
    for first in (0, side - 1):
        with pytest.raises(OperandError, match="memory of its own"):
            pool.multiply(memory[:side], b, memory[first : first + side])


def test_a_closed_pool_refuses_products(open_pool: OpenPool) -> None:
    pool = open_pool(2)
    pool.close()
    pool.close()
    for progress in (None, lambda _: None):
        with pytest.raises(CpuError, match="closed"):
            pool.multiply(np.ones((2, 2)), np.ones((2, 2)), np.ones((2, 2)), progress=progress)
