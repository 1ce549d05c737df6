"""Pinned matrices are copied to the GPU and back without staging, also mixed with pageable ones."""

import ctypes
import gc

import numpy as np
import pytest

from tests.kernels.specs import compute
from tests.matrices import assert_product, make_matrix, pin_copy
from wavetrim.kernels.catalog import find_kernel
from wavetrim.kernels.errors import DeviceFailure, OperandError
from wavetrim.kernels.transfer.pinned import (
    is_pinned,
    lock_matrix,
    lock_region,
    pin_array,
    pin_matrix,
    unlock_region,
    were_locked,
)
from wavetrim.native.plain import find_addresses

pytestmark = pytest.mark.gpu

SPEC = find_kernel("cublas", "float32")


def test_pinned_memory_is_recognised():
    pinned = pin_matrix(30, 50, "float64")
    assert is_pinned(pinned)
    assert is_pinned(pinned[3:7, 10:20])
    assert is_pinned(pinned[:1])
    assert not is_pinned(pinned.T)
    assert not is_pinned(pinned[::-1])
    assert not is_pinned(np.ones((30, 50)))


def test_it_is_told_whether_all_of_the_memory_of_operands_was_locked():
    def were_all_locked(*matrices):
        addresses = find_addresses(*matrices)
        assert addresses == tuple(matrix.ctypes.data for matrix in matrices)
        return were_locked(matrices, addresses)

    first, second = pin_matrix(30, 50, "float64"), pin_matrix(3, 5, "float32")
    assert were_all_locked(first, first[4:], second)
    assert not were_all_locked(first, np.ones((30, 50)), second)
    read_only = first[:2]
    read_only.flags.writeable = False
    assert were_all_locked(read_only, first, second)
    matrix = np.ones((300, 500), "float32")
    region = matrix[100:200]
    with lock_matrix(region):
        assert were_all_locked(region, region[1:], second)
        assert not were_all_locked(matrix[99:200], region, second)
        assert not were_all_locked(region, matrix[100:201], second)
    assert not were_all_locked(region, first, second)


def test_a_view_keeps_pinned_memory_alive():
    view = pin_copy(np.arange(12.0).reshape(3, 4))[1:, :2]
    gc.collect()
    np.testing.assert_array_equal(view, [[4, 5], [8, 9]])
    assert is_pinned(view)


def test_a_matrix_is_page_locked_until_the_context_ends():
    matrix = np.ones((300, 500), "float32")
    with lock_matrix(matrix) as locked:
        assert is_pinned(locked)
    assert not is_pinned(matrix)
    with pytest.raises(OperandError, match="only contiguous memory"), lock_matrix(matrix[:, :3]):
        pass
    locked_twice = pytest.raises(DeviceFailure, match="cannot be page-locked")
    with lock_matrix(matrix), locked_twice, lock_matrix(matrix):
        pass


def test_freed_pinned_memory_is_not_pinned():
    pinned = pin_matrix(2000, 1000, "float32")
    address = pinned.ctypes.data
    assert is_pinned(pinned)
    del pinned
    gc.collect()
    nobodys = np.ctypeslib.as_array((ctypes.c_float * 2_000_000).from_address(address))
    assert not is_pinned(nobodys.reshape(2000, 1000))  # reads none of it


def test_a_matrix_is_pinned_only_within_one_locked_region():
    memory = np.zeros(3 << 20, np.uint8)
    begin = -memory.ctypes.data % 4096
    whole = memory[begin : begin + (2 << 20)].reshape(2048, 1024)
    address, half = whole.ctypes.data, 1 << 20
    lock_region(address, half)
    lock_region(address + half, half)
    assert is_pinned(whole[100:1024, 7:50])
    assert is_pinned(whole[1024:])
    assert is_pinned(whole[2047:])
    assert not is_pinned(whole[1000:1025])
    unlock_region(address, half)
    assert not is_pinned(whole[:1024])
    assert is_pinned(whole[1500:])
    unlock_region(address + half, half)
    assert not is_pinned(whole[1500:])


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 700, 3), (517, 1, 129), (1031, 769, 1257)])
@pytest.mark.parametrize("pinned", ["abc", "ab", "c", "b"])
def test_pinned_and_pageable_operands_may_be_mixed(pipeline, shape, pinned):
    m, n, k = shape
    a, b = make_matrix(m, k, "float32", 1), make_matrix(k, n, "float32", 2)
    before = make_matrix(m, n, "float32", 3)
    operands = {"a": a, "b": b, "c": before}
    x, y, c = (pin_copy(v) if name in pinned else v.copy() for name, v in operands.items())
    compute(pipeline, SPEC, x, y, c, alpha=-2, beta=0.5)
    assert_product(c, a, b, before, alpha=-2, beta=0.5)


def test_only_the_result_within_a_pinned_matrix_is_written(pipeline):
    whole = pin_copy(np.full((400, 600), 7, "float32"))
    a, b = make_matrix(300, 200, "float32", 1), make_matrix(200, 500, "float32", 2)
    compute(pipeline, SPEC, pin_copy(a), b, whole[50:350, 40:540])
    assert_product(whole[50:350, 40:540], a, b)
    whole[50:350, 40:540] = 7
    assert (whole == 7).all()


@pytest.mark.parametrize("columns", [1020, 1024, 900])
def test_padding_of_pinned_rows_stays_as_it_is(pipeline, columns):
    """Rows of 1020 elements have the same leading dimension on the device as here, 1024."""
    whole = pin_copy(np.full((300, 1024), 7, "float32"))
    a, b = make_matrix(300, 200, "float32", 1), make_matrix(200, columns, "float32", 2)
    compute(
        pipeline,
        *(SPEC, pin_copy(a), pin_copy(np.pad(b, ((0, 0), (0, 4))))[:, :columns]),
        whole[:, :columns],
    )
    assert_product(whole[:, :columns], a, b)
    assert (whole[:, columns:] == 7).all()


@pytest.mark.parametrize("b_is_pinned", [True, False])
def test_rows_two_gibibytes_apart_are_copied(pipeline, b_is_pinned):
    """CUDA copies no rows that are so far apart in one call."""
    (m, n, k), pitch = (2, 200, 300), 2**31 + 64
    memory = pin_array((pitch + 4096,), "uint8")
    a = np.ndarray((m, k), "float32", buffer=memory, strides=(pitch, 4))
    c = np.ndarray((m, n), "float32", buffer=memory, offset=2048, strides=(pitch, 4))
    a[...], b = make_matrix(m, k, "float32", 1), make_matrix(k, n, "float32", 2)
    before = c[...] = make_matrix(m, n, "float32", 3)
    assert is_pinned(a)
    assert is_pinned(c)
    b = pin_copy(b) if b_is_pinned else b
    compute(pipeline, SPEC, a, b, c, beta=2.0)
    assert_product(c, a, b, before, beta=2.0)
