from functools import partial

import numpy as np
import pytest

from tests.kernels.specs import SPECS, multiply, name_spec
from tests.matrices import assert_product, make_matrix
from wavetrim.kernels.catalog import find_kernel
from wavetrim.kernels.device import list_devices
from wavetrim.kernels.errors import OperandError
from wavetrim.kernels.gemm.dispatch import multiply_on_device

pytestmark = pytest.mark.gpu

with_bulk = partial(
    pytest.mark.parametrize, "spec", [spec for spec in SPECS if spec.name == "bulk"], ids=name_spec
)


def check_product(spec, shape, cache_dir, sms):
    """A product on some multiprocessors is right, and has the same bits a second time."""
    m, n, k = shape
    sms = min(sms, list_devices()[0].sm_count)
    a, b = make_matrix(m, k, spec.dtype, 1), make_matrix(k, n, spec.dtype, 2)
    first, second = (multiply(spec, a, b, cache_dir, sms=sms) for _ in range(2))
    assert_product(first, a, b)
    np.testing.assert_array_equal(second, first)


@with_bulk()
@pytest.mark.parametrize("sms", [1, 2, 7, 31, 100, 132])
def test_any_number_of_multiprocessors_computes_the_whole_product(spec, sms, kernel_cache):
    shapes = (100, 90, 3000), (900, 700, 1500), (1000, 1300, 40), (129, 4099, 517)
    for shape in (*shapes, (5, 7, 100_003)):  # of the last one many blocks share a tile
        check_product(spec, shape, kernel_cache, sms)


@with_bulk()
@pytest.mark.timeout(60)
def test_a_tail_of_fewer_steps_than_multiprocessors_is_split(spec, kernel_cache):
    for sms in (20, 33, 132):
        rows = (min(sms, list_devices()[0].sm_count) + 1) * spec.tile.m
        check_product(spec, (rows, spec.tile.n, 16 * spec.tile.k), kernel_cache, sms)


def test_limits_of_multiprocessors_that_cannot_be_kept_are_refused(kernel_cache):
    import cupy

    operands = [cupy.ones((4, 4), np.float32) for _ in range(3)]
    simple, bulk = find_kernel("simple", "float32"), find_kernel("bulk", "float32")
    count = list_devices()[0].sm_count
    with pytest.raises(OperandError, match=r"sms is 3; simple .* cannot be limited"):
        multiply_on_device(simple, *operands, sms=3, cache_dir=kernel_cache)
    for sms in (0, count + 1):
        with pytest.raises(OperandError, match=f"sms is {sms}; it must be 1…{count}"):
            multiply_on_device(bulk, *operands, sms=sms, cache_dir=kernel_cache)
