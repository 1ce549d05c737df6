"""Kernels limited to some multiprocessors: results, refusals, and cuBLAS's order on streams."""

import statistics
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

from tests.kernels.specs import SPECS, multiply, name_spec
from tests.matrices import FLOATS, assert_product, make_matrix
from wavetrim.kernels.catalog import find_kernel
from wavetrim.kernels.device import list_devices
from wavetrim.kernels.errors import OperandError
from wavetrim.kernels.gemm.dispatch import multiply_on_device
from wavetrim.kernels.gemm.launch import count_sms
from wavetrim.kernels.timing.seconds import DeviceProduct

pytestmark = pytest.mark.gpu

CUBLAS = {dtype: find_kernel("cublas", dtype) for dtype in FLOATS}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(1, 1, 1), (300, 200, 500), (333, 1021, 257)], ids=str)
def test_a_held_product_is_right_and_has_the_same_bits_again(shape, dtype, kernel_cache):
    m, n, k = shape
    a, b = make_matrix(m, k, dtype, 1), make_matrix(k, n, dtype, 2)
    for sms in (8, 13, 64, count_sms() - 1, count_sms(), None):
        most = None if sms is None else min(sms, count_sms())
        held = multiply(CUBLAS[dtype], a, b, kernel_cache, sms=most)
        assert_product(held, a, b)
        np.testing.assert_array_equal(multiply(CUBLAS[dtype], a, b, kernel_cache, sms=most), held)


@pytest.mark.parametrize("sms", [1, 5, 7])
def test_fewer_multiprocessors_than_a_partition_has_are_refused(sms, kernel_cache):
    a = make_matrix(8, 8, "float32", 1)
    message = rf"sms is {sms}; cublas .* can be limited to at least 8 multiprocessors"
    with pytest.raises(OperandError, match=message):
        multiply(CUBLAS["float32"], a, a, kernel_cache, sms=sms)


def test_a_held_product_keeps_its_place_on_its_stream(kernel_cache):
    import cupy

    size = 1024
    with cupy.cuda.Stream(non_blocking=True) as stream:
        filler = cupy.empty(1 << 29, np.uint8)
        a, b, c = (cupy.zeros((size, size), np.float32) for _ in range(3))
        b.fill(1)
        for _ in range(20):
            filler.fill(1)
        a.fill(1)
        multiply_on_device(CUBLAS["float32"], a, b, c, sms=8, cache_dir=kernel_cache)
        doubled = c * 2
        a.fill(0)
        assert cupy.cuda.get_current_stream() == stream
        stream.synchronize()
        assert (cupy.asnumpy(doubled) == 2 * size).all()


def test_threads_share_a_partition(kernel_cache):
    import cupy

    a, b = make_matrix(700, 300, "float64", 1), make_matrix(300, 500, "float64", 2)

    def work(sms):
        with cupy.cuda.Stream(non_blocking=True):
            return multiply(CUBLAS["float64"], a, b, kernel_cache, sms=sms)

    with ThreadPoolExecutor(4) as threads:
        for product in threads.map(work, [8, 16, 8, 24] * 10):
            assert_product(product, a, b)


def test_a_kernel_launched_after_a_held_product_has_all_multiprocessors(kernel_cache):
    a = make_matrix(4096, 4096, "float32", 1)
    product = DeviceProduct(a, a, device_index=0, cache_dir=kernel_cache)
    measure = partial(product.time_launches, CUBLAS["float32"], 5)
    before = statistics.median(measure())
    measure(sms=8)
    assert statistics.median(measure()) < 3 * before, "with 8 of them it takes far longer"


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
