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


@pytest.mark.parametrize(
    ("a_shape", "b_shape", "c_shape", "field"),
    [
        ((2, 1), (2, 5), (2, 5), "b"),
        ((1, 1), (1, 5), (2, 5), "c"),
        ((2, 1), (1, 1), (2, 5), "c"),
    ],
)
def test_operands_are_not_broadcast(
    pool: CpuPool, a_shape: tuple[int, ...], b_shape: tuple[int, ...], c_shape: tuple[int, ...],
    field: str,
) -> None:  # fmt: skip
    """At K = 1, NumPy's elementwise product would broadcast them."""
    operands = [np.ones(shape) for shape in (a_shape, b_shape, c_shape)]
    with pytest.raises(OperandError) as refused:
        pool.multiply_alone(*operands, 1, 0)
    assert refused.value.field == field


@pytest.mark.parametrize("side", [4, 300])
def test_a_result_that_shares_memory_with_an_operand_is_refused(pool: CpuPool, side: int) -> None:
    memory, b = np.ones((2 * side, side)), np.ones((side, side))
    for first in (0, side - 1):
        with pytest.raises(OperandError, match="memory of its own"):
            pool.multiply(memory[:side], b, memory[first : first + side])


def test_a_read_only_result_is_refused(pool: CpuPool) -> None:
    c = np.ones((2, 2))
    c.flags.writeable = False
    with pytest.raises(OperandError, match="writable"):
        pool.multiply(np.ones((2, 2)), np.ones((2, 2)), c)


def test_a_fraction_as_a_factor_of_integers_is_refused(pool: CpuPool) -> None:
    a = np.ones((2, 2), np.int32)
    with pytest.raises(OperandError) as refused:
        pool.multiply(a, a.copy(), a.copy(), alpha=0.5)
    assert (refused.value.field, refused.value.value) == ("alpha", 0.5)


def test_a_pool_without_threads_is_refused() -> None:
    with pytest.raises(OperandError, match="threads is 0"):
        CpuPool(0)


def test_a_closed_pool_refuses_products(open_pool: OpenPool) -> None:
    pool = open_pool(2)
    pool.close()
    pool.close()
    for progress in (None, lambda _: None):
        with pytest.raises(CpuError, match="closed"):
            pool.multiply(np.ones((2, 2)), np.ones((2, 2)), np.ones((2, 2)), progress=progress)
