"""The 16-bit tensor kernel in both types: clusters, waves, ragged tiles and errors."""

from functools import partial

import numpy as np
import pytest

from tests.kernels.specs import multiply, needs
from tests.matrices import assert_product, make_matrix
from wavetrim.kernels.catalog import find_kernel, list_kernels
from wavetrim.kernels.device import list_devices
from wavetrim.kernels.gemm.dispatch import multiply_on_device

TENSOR = find_kernel("tensor", "float16")
pytestmark = pytest.mark.gpu
needs_tensor = needs(TENSOR)
SPECS = [
    spec for dtype in ("float16", "bfloat16") for spec in list_kernels(dtype=dtype) if spec.source
]
with_specs = partial(
    pytest.mark.parametrize, "spec", SPECS, ids=lambda spec: f"{spec.dtype}-{spec.tile}"
)


@needs_tensor
@with_specs()
def test_any_number_of_multiprocessors_gives_the_same_bits(spec, kernel_cache):
    """Odd numbers of tiles, also where the tiles of a cluster lie in different columns."""
    count = list_devices()[0].sm_count
    for rows, columns, k in ((1, 1, 1), (3, 5, 65), (9, 3, 200), (17, 7, 64), (8, 20, 700)):
        shape = rows * spec.tile.m - 3, columns * spec.tile.n - 5
        a, b = make_matrix(shape[0], k, spec.dtype, 1), make_matrix(k, shape[1], spec.dtype, 2)
        products = [
            multiply(spec, a, b, kernel_cache, sms=sms)
            for sms in (None, spec.sms_quantum, 7, 31, count)
        ]
        assert_product(products[0], a, b)
        for product in products[1:]:
            np.testing.assert_array_equal(product, products[0])


@needs_tensor
@with_specs()
@pytest.mark.parametrize("k", [100, 4096, 65_536])
def test_errors_are_those_of_cublas(spec, k, kernel_cache):
    a, b = make_matrix(200, k, spec.dtype, 1), make_matrix(k, 300, spec.dtype, 2)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    ours, theirs = (
        np.abs(multiply(one, a, b, kernel_cache).astype(np.float64) - exact)
        for one in (spec, find_kernel("cublas", spec.dtype))
    )
    assert ours.max() <= 1.2 * theirs.max()
    # cuBLAS may divide K among blocks, and shorter sums are a little more exact: 7% at the last K.
    assert np.sqrt((ours**2).mean()) <= 1.1 * np.sqrt((theirs**2).mean())


@pytest.mark.parametrize("k", [600, 4096])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_cublas_sums_in_float32(dtype, k, kernel_cache):
    """Each element is rounded once, also after CuPy has used the same handle."""
    import cupy

    a, b = make_matrix(700, k, dtype, 1), make_matrix(k, 500, dtype, 2)
    operands = cupy.asarray(a), cupy.asarray(b)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    sizes = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64))
    unit = {"float16": 2.0**-11, "bfloat16": 2.0**-8}[dtype]
    for _ in range(2):
        c = cupy.empty(exact.shape, dtype)
        multiply_on_device(find_kernel("cublas", dtype), *operands, c, cache_dir=kernel_cache)
        errors = np.abs(cupy.asnumpy(c).astype(np.float64) - exact)
        assert (errors <= 1.01 * unit * np.abs(exact) + k * 2.0**-24 * sizes).all()
        half = cupy.ones((64, 64), "float16")
        cupy.matmul(half, half)


@needs_tensor
@with_specs()
def test_sums_that_the_type_cannot_hold_are_infinite(spec, kernel_cache):
    """Sums of float16 end at 65,504; those of bfloat16 where those of float32 do."""
    import cupy

    element = 200 if spec.dtype == "float16" else 1e19
    a, b = cupy.full((70, 300), element, spec.dtype), cupy.full((300, 90), element, spec.dtype)
    b[:, 45:] *= -1
    c = cupy.empty((70, 90), spec.dtype)
    multiply_on_device(spec, a, b, c, cache_dir=kernel_cache)
    product = cupy.asnumpy(c).astype(np.float32)
    assert (product[:, :45] == np.inf).all()
    assert (product[:, 45:] == -np.inf).all()


@needs_tensor
@pytest.mark.parametrize("tile", [str(spec.tile) for spec in SPECS if spec.dtype == "bfloat16"])
def test_bfloat16_has_the_range_of_float32(tile, kernel_cache):
    """A kernel that read its bits as float16 would give infinities and NaN."""
    spec = find_kernel("tensor", "bfloat16", tile)
    a, b = make_matrix(131, 77, "bfloat16", 1), make_matrix(77, 257, "bfloat16", 2)
    a, b = (a * 2.0**60).astype(a.dtype), (b * 2.0**-70).astype(b.dtype)
    assert_product(multiply(spec, a, b, kernel_cache), a, b)
