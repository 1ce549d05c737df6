from functools import partial

import numpy as np
import pytest

from tests.kernels.specs import SPECS, multiply, name_spec
from tests.matrices import assert_product, is_poison, make_matrix, make_output, padding_of
from wavetrim.kernels.catalog import find_kernel
from wavetrim.kernels.device import list_devices
from wavetrim.kernels.gemm.dispatch import multiply_on_device

pytestmark = pytest.mark.gpu

SIMPLE = find_kernel("simple", "float32")
OURS = [spec for spec in SPECS if spec.source]
NAMED = [
    find_kernel(name, "float32") for name in ("naive", "simple", "coalesced", "shared", "register")
]
with_specs = partial(pytest.mark.parametrize, "spec", ids=name_spec)


def list_shapes(spec):
    """(m, n, k): one, the tile, one less, one more, several tiles, primes."""
    tile = spec.tile
    return [
        (1, 1, 1),
        (1, tile.n + 1, 3),
        (tile.m + 1, 1, tile.k - 1),
        (tile.m, tile.n, tile.k),
        (tile.m - 1, tile.n - 1, tile.k + 1),
        (tile.m + 1, tile.n + 1, 2 * tile.k),
        (2 * tile.m + 4, tile.n + 4, 5 * tile.k + 4),
        (9 * tile.m - 3, 2 * tile.n + 8, tile.k),
        (131, 257, 61),
        (61, 127, 509),
    ]


def put_on_device(matrix, *, skip=0):
    """The matrix in device memory with its padding, `skip` elements past an aligned address.

    Returns it, and the whole of its memory as one row for each row of the matrix.
    """
    import cupy

    buffer = np.asarray(matrix if matrix.base is None else matrix.base)
    memory = cupy.empty(buffer.size + skip, buffer.dtype)[skip:].reshape(buffer.shape)
    memory.set(buffer)
    return memory[:, : matrix.shape[1]], memory


def check_product(spec, shape, cache_dir, *, alpha=1.0, beta=0.0, padding=0, skip=0):
    """Multiply poisoned and padded matrices, and compare with the reference; returns C."""
    import cupy

    m, n, k = shape
    a = make_matrix(m, k, spec.dtype, 1, leading_dimension=k + padding)
    b = make_matrix(k, n, spec.dtype, 2, leading_dimension=n + padding)
    c = make_output(m, n, spec.dtype, leading_dimension=n + padding)
    if beta != 0:
        c[...] = make_matrix(m, n, spec.dtype, 3)
    (device_a, _), (device_b, _) = put_on_device(a, skip=skip), put_on_device(b, skip=skip)
    device_c, memory = put_on_device(c, skip=skip)
    factors = {"alpha": alpha, "beta": beta}
    multiply_on_device(spec, device_a, device_b, device_c, **factors, cache_dir=cache_dir)
    out = cupy.asnumpy(memory)
    assert_product(out[:, :n], a, b, c, **factors)
    assert is_poison(out[:, n:]).all(), "padding between the rows of C was written"
    assert is_poison(padding_of(c)).all()
    return out[:, :n]


@with_specs(SPECS)
def test_ragged_products_are_right_and_leave_padding_alone(spec, kernel_cache):
    """Operands need no alignment."""
    for shape in list_shapes(spec):
        for padding, skip in ((0, 0), (4, 0), (5, 0), (8, 1)):
            check_product(spec, shape, kernel_cache, padding=padding, skip=skip)


@with_specs(SPECS)
@pytest.mark.parametrize(("alpha", "beta"), [(1, 1), (-2.5, 0), (0.5, -3), (0, 2), (0, 0)])
def test_factors_scale_the_product_and_the_old_c(spec, alpha, beta, kernel_cache):
    for shape in list_shapes(spec):
        for padding in (0, 3):
            check_product(spec, shape, kernel_cache, alpha=alpha, beta=beta, padding=padding)


@with_specs(SPECS)
def test_zero_alpha_ignores_nan_in_a_and_b(spec, kernel_cache):
    import cupy

    a, b = cupy.full((5, 7), np.nan, spec.dtype), cupy.full((7, 9), np.nan, spec.dtype)
    c = cupy.full((5, 9), 3, spec.dtype)
    multiply_on_device(spec, a, b, c, alpha=0, beta=2, cache_dir=kernel_cache)
    assert (cupy.asnumpy(c) == 6).all()


@with_specs(SPECS)
def test_a_larger_product_is_right_and_the_same_every_time(spec, kernel_cache):
    first = check_product(spec, (523, 1031, 2053), kernel_cache)
    for _ in range(3):
        np.testing.assert_array_equal(check_product(spec, (523, 1031, 2053), kernel_cache), first)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_all_kernels_that_sum_in_the_order_of_k_agree_in_every_bit(dtype, kernel_cache):
    strict = [s for s in OURS if s.dtype == dtype and s.name != "tensor"]
    # K is too short for a kernel that splits its tail along K to do so.
    products = [check_product(spec, (259, 131, 125), kernel_cache) for spec in strict]
    for product in products[1:]:
        np.testing.assert_array_equal(product, products[0])


@with_specs([*NAMED, find_kernel("bulk", "float32"), find_kernel("cublas", "float32")])
def test_offsets_beyond_two_to_the_31_are_right(spec, kernel_cache):
    import cupy

    if list_devices()[0].memory_bytes < 12 * 2**30:
        pytest.skip("needs 8 GiB of device memory")
    stride = 2**30
    memory = cupy.empty(2 * stride + 2**20, np.float32)
    whole = cupy.lib.stride_tricks.as_strided(memory, (3, 2**19), (4 * stride, 4))
    a, c = whole[:, :40], whole[:, 64:104]
    host_a, b = make_matrix(3, 40, "float32", 1), make_matrix(40, 40, "float32", 2)
    a[...] = cupy.asarray(host_a)
    multiply_on_device(spec, a, cupy.asarray(b), c, cache_dir=kernel_cache)
    assert_product(cupy.asnumpy(c), host_a, b)


@with_specs([spec for spec in SPECS if spec.dtype not in ("float16", "bfloat16")])
def test_denormals_are_kept(spec, kernel_cache):
    small = np.sqrt(np.finfo(spec.dtype).smallest_subnormal) * 64
    a, b = np.full((3, 1), small, spec.dtype), np.full((1, 5), small, spec.dtype)
    c = multiply(spec, a, b, kernel_cache)
    np.testing.assert_array_equal(c, a * b)
    assert 0 < float(c[0, 0].real) < np.finfo(spec.dtype).tiny


def test_cublas_in_float32_is_not_tf32(kernel_cache):
    a, b = make_matrix(512, 1, "float32", 1), make_matrix(1, 512, "float32", 2)
    product = multiply(find_kernel("cublas", "float32"), a, b, kernel_cache)
    np.testing.assert_array_equal(product, a * b)


@with_specs([find_kernel(name, "float32") for name in ("register", "bulk", "cublas")])
def test_a_launch_waits_for_its_stream(spec, kernel_cache):
    import cupy

    a, b = make_matrix(1024, 1024, "float32", 1), make_matrix(1024, 1024, "float32", 2)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        device_a, device_b = cupy.asarray(a), cupy.asarray(b)
        product = device_a
        for _ in range(20):  # keep the stream busy, so that a launch elsewhere would be too early
            product = product @ device_b * 0.05
        c = cupy.empty_like(product)
        multiply_on_device(spec, product, device_b, c, cache_dir=kernel_cache)
    stream.synchronize()
    assert_product(cupy.asnumpy(c), cupy.asnumpy(product), b)


def test_the_unused_stride_of_a_single_row_or_column_may_be_anything(kernel_cache):
    import cupy

    a, b = make_matrix(3, 1, "float32", 1), make_matrix(1, 5, "float32", 2)
    column = cupy.asarray(np.hstack([a, a]))[:, :1]
    row = cupy.broadcast_to(cupy.asarray(b), (1, 5))[::-1]
    c = cupy.empty((3, 5), np.float32)
    multiply_on_device(SIMPLE, column, row, c, cache_dir=kernel_cache)
    assert_product(cupy.asnumpy(c), a, b)
