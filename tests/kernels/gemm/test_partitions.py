"""cuBLAS limited to some multiprocessors: its results, rates and order on streams."""

import statistics
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

from tests.kernels.specs import multiply
from tests.matrices import assert_product, make_matrix
from wavetrim.kernels.catalog import find_kernel
from wavetrim.kernels.errors import OperandError
from wavetrim.kernels.gemm.dispatch import multiply_on_device
from wavetrim.kernels.gemm.launch import count_sms
from wavetrim.kernels.timing.seconds import DeviceProduct

pytestmark = pytest.mark.gpu

CUBLAS = {
    dtype: find_kernel("cublas", dtype)
    for dtype in ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
}


@pytest.mark.parametrize("dtype", list(CUBLAS))
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
