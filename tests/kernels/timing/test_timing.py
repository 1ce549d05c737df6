import numpy as np
import pytest

from tests.matrices import assert_product, make_matrix
from wavetrim.kernels.catalog import find_kernel
from wavetrim.kernels.errors import DeviceFailure, OperandError
from wavetrim.kernels.timing.seconds import DeviceProduct
from wavetrim.kernels.timing.whole_tiles import KernelProbe

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("shape", [(1, 1, 1), (131, 257, 61), (512, 512, 4)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_timed_kernel_leaves_its_product(dtype, shape, kernel_cache):
    m, n, k = shape
    a, b = make_matrix(m, k, dtype, 1), make_matrix(k, n, dtype, 2)
    product = DeviceProduct(a, b, device_index=0, cache_dir=kernel_cache)
    for name in ("simple", "coalesced", "shared"):
        seconds = product.time_launches(find_kernel(name, dtype, "16"), 3)
        assert len(seconds) == 3
        assert all(0 < time < 1 for time in seconds)
        assert_product(product.fetch(), a, b)


def test_kernels_that_cannot_be_held_to_some_multiprocessors_are_refused(kernel_cache):
    a = make_matrix(64, 64, "float32", 1)
    product = DeviceProduct(a, a, device_index=0, cache_dir=kernel_cache)
    with pytest.raises(OperandError, match="sms is 4"):
        product.time_burst(find_kernel("shared", "float32"), 1, sms=4)


@pytest.mark.parametrize("name", ["register", "cublas"])
def test_more_rounds_of_tiles_take_longer(name, kernel_cache):
    spec = find_kernel(name, "float32")
    probe = KernelProbe(spec, sm_count=12, device_index=0, cache_dir=kernel_cache)
    one, many = probe.measure(1, 256), probe.measure(200, 256)
    assert (one.rows, one.n, one.tiles) == (4 * spec.tile.m, 3 * spec.tile.n, 12)
    assert many.tiles == 200 * one.tiles
    assert 0 < 2 * one.seconds < many.seconds
    assert 0 < probe.measure_launch() < min(one.seconds, 5e-5)


def test_matrices_that_do_not_fit_the_gpu_do_not_poison_its_context(kernel_cache):
    tall, wide = np.zeros((2**20, 1), np.float32), np.zeros((1, 2**20), np.float32)
    with pytest.raises(DeviceFailure) as failure:  # C would take 4 TiB
        DeviceProduct(tall, wide, device_index=0, cache_dir=kernel_cache)
    assert not failure.value.poisoned
