"""Straight products: right for all operands of a shape, and left to the pipeline where unsafe."""

import gc
import weakref

import numpy as np
import pytest

from tests.kernels.specs import compute
from tests.matrices import FLOATS, assert_product, make_matrix, pin_copy
from wavetrim.kernels.catalog import find_kernel
from wavetrim.kernels.errors import DeviceFailure
from wavetrim.kernels.transfer.pinned import pin_matrix

pytestmark = pytest.mark.gpu

SHAPE = 517, 389, 261


def draw(seed, dtype="float32", memory="pinned"):
    m, n, k = SHAPE
    a, b = make_matrix(m, k, dtype, seed), make_matrix(k, n, dtype, seed + 1)
    if memory == "pinned":
        return pin_copy(a), pin_copy(b), pin_matrix(m, n, dtype)
    return a, b, np.empty((m, n), a.dtype)


@pytest.fixture
def own_pipeline(open_pipeline):
    return open_pipeline()


def find(pipeline, *, dtype="float32", alpha=1.0, beta=0.0):
    return pipeline.straight.find(find_kernel("cublas", dtype), SHAPE, alpha, beta)


def check(product, *, dtype="float32", memory="pinned", alpha=1.0, beta=0.0, seed=1):
    a, b, c = draw(seed, dtype, memory)
    c[...] = 7.0 if beta else np.nan
    before = c.copy()
    assert product.run(a, b, c)
    assert_product(c, a, b, before, alpha=alpha, beta=beta)


@pytest.mark.parametrize("memory", ["pinned", "pageable"])
@pytest.mark.parametrize("factors", [(1.0, 0.0), (-2.5, 0.5)], ids=str)
@pytest.mark.parametrize("dtype", FLOATS)
def test_it_serves_other_operands_of_the_shape(own_pipeline, dtype, factors, memory):
    alpha, beta = factors
    product = find(own_pipeline, dtype=dtype, alpha=alpha, beta=beta)
    assert product is find(own_pipeline, dtype=dtype, alpha=alpha, beta=beta)
    for seed in (1, 3):
        check(product, dtype=dtype, memory=memory, alpha=alpha, beta=beta, seed=seed)


def test_it_serves_device_memory_that_was_allocated_anew(own_pipeline):
    spec = find_kernel("cublas", "float32")
    product = find(own_pipeline)
    for size in (2000, 3000, 4000):
        check(product, seed=size)
        a, c = pin_matrix(size, 1200, "float32"), pin_matrix(size, size, "float32")
        compute(own_pipeline, spec, a, pin_matrix(1200, size, "float32"), c)


def lend_columns(a, b, c):
    wide = pin_matrix(a.shape[0], a.shape[1] + 1, a.dtype)
    wide[:, 1:] = a
    return wide[:, 1:], b, c


def lend_the_rows_of_a(a, b, c):
    both = pin_matrix(1, max(a.size, c.size), a.dtype)[0]
    return both[: a.size].reshape(a.shape), b, both[-c.size :].reshape(c.shape)


def lend_for_reading(a, b, c):
    c.flags.writeable = False
    return a, b, c


LENT = {
    "columns": lend_columns,
    "rows of a": lend_the_rows_of_a,
    "for reading": lend_for_reading,
    "a shorter b": lambda a, b, c: (a, b[1:], c),
    "another type": lambda a, b, c: (a.view("int32"), b, c),
}


@pytest.mark.parametrize("lend", LENT.values(), ids=LENT)
def test_other_operands_are_left_to_the_pipeline(pipeline, lend):
    a, b, c = lend(*draw(1))
    before = c.copy()
    assert not find(pipeline).run(a, b, c)
    assert np.array_equal(c, before, equal_nan=True)


def test_with_too_little_device_memory_it_is_left_to_the_pipeline(open_pipeline):
    small = open_pipeline(gpu_memory_bytes=1 << 20)
    assert not find(small).run(*draw(1))


def test_after_a_failure_the_gpu_can_be_used_again(own_pipeline, monkeypatch):
    def fail(*_):
        raise DeviceFailure("no memory")

    product = find(own_pipeline)
    with monkeypatch.context() as patch:
        patch.setattr(product, "_await", fail)
        with pytest.raises(DeviceFailure, match="no memory"):
            product.run(*draw(1))
    assert not own_pipeline.lock.locked()
    check(product)


@pytest.mark.parametrize("kernel", ["register", "cublas"])
def test_operands_are_released_after_the_product(pipeline, kernel):
    operands = draw(1)
    if kernel == "cublas":
        assert find(pipeline).run(*operands)
    compute(pipeline, find_kernel(kernel, "float32"), *operands)
    alive = [weakref.ref(operand) for operand in operands]
    del operands
    gc.collect()
    assert [one() for one in alive] == [None] * 3
