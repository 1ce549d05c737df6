"""The tensor kernels: errors against cuBLAS, elements beyond bfloat16, limits."""

from dataclasses import replace

import numpy as np
import pytest

from tests.kernels.specs import compute, multiply, needs
from tests.matrices import assert_product, make_matrix, make_output
from tests.rates import RATES, plan_steps
from wavetrim.kernels.catalog import find_kernel, list_kernels
from wavetrim.kernels.errors import DeviceFailure
from wavetrim.kernels.gemm.dispatch import multiply_on_device
from wavetrim.kernels.gemm.launch import STRICT, count_sms
from wavetrim.kernels.schedule.panels import PanelProblem
from wavetrim.kernels.spec import LEAST_TERMS_K

TENSOR = find_kernel("tensor", "float32")
pytestmark = [pytest.mark.gpu, needs(TENSOR)]
CUBLAS = find_kernel("cublas", "float32")
HOLDABLE_FLOAT64 = [
    spec for spec in list_kernels(dtype="float64") if spec.name == "tensor" and spec.can_limit_sms
]


def draw(kind, m, n, k):
    """Operands of a distribution; "wide" scales the rows of A and columns of B by 2^-30…2^30."""
    generator = np.random.default_rng(k)
    shapes = (m, k), (n, k)
    if kind == "uniform":
        a, b = (generator.random(shape, np.float32) for shape in shapes)
    elif kind == "lognormal":
        a, b = (np.exp(generator.standard_normal(shape)) for shape in shapes)
    else:
        a, b = (generator.standard_normal(shape) for shape in shapes)
    if kind == "wide":
        a, b = (x * 2.0 ** generator.integers(-30, 31, (len(x), 1)) for x in (a, b))
    return a.astype(np.float32), np.ascontiguousarray(b.T.astype(np.float32))


def find_errors(product, a, b):
    """Errors against float64, relative to |A|·|B|."""
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    return abs(product - wide_a @ wide_b) / (abs(wide_a) @ abs(wide_b))


@pytest.mark.parametrize("kind", ["uniform", "normal", "lognormal", "wide"])
@pytest.mark.parametrize("k", [32, 100, 128, 160, 256, 512, 800, 1000, 2048, 8192, 65536])
def test_errors_are_no_larger_than_those_of_cublas(kind, k, kernel_cache):
    m, n = (333, 517) if k <= 8192 else (129, 257)
    a, b = draw(kind, m, n, k)
    ours, theirs = (
        find_errors(multiply(spec, a, b, kernel_cache), a, b) for spec in (TENSOR, CUBLAS)
    )
    summary = (
        f"ours {ours.max():.3e} {ours.std():.3e}, cuBLAS's {theirs.max():.3e} {theirs.std():.3e}"
    )
    print(kind, k, summary)
    assert np.sqrt(np.mean(ours**2)) <= np.sqrt(np.mean(theirs**2)), summary
    assert ours.max() <= theirs.max(), summary


def test_without_memory_for_its_terms_a_product_is_refused(kernel_cache):
    import cupy

    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    a, b = make_matrix(1500, 1000, "float32", 1), make_matrix(1000, 1500, "float32", 2)
    operands = cupy.asarray(a), cupy.asarray(b), cupy.empty((1500, 1500), np.float32)
    multiply_on_device(TENSOR, *operands, cache_dir=kernel_cache)  # modules need memory too
    cupy.cuda.Stream.null.synchronize()
    pool.free_all_blocks()
    pool.set_limit(size=pool.total_bytes() + (4 << 20))
    try:
        with pytest.raises(DeviceFailure, match=TENSOR.label):
            multiply_on_device(TENSOR, *operands, cache_dir=kernel_cache)
    finally:
        pool.set_limit(size=0)


def is_left_to_the_strict_kernel(a, b, cache_dir):
    """Whether the result has every bit of the strict kernel's."""
    ours, strict = multiply(TENSOR, a, b, cache_dir), multiply(STRICT, a, b, cache_dir)
    return np.array_equal(ours, strict, equal_nan=True)


def test_a_plain_product_is_not_left_to_the_strict_kernel(kernel_cache):
    assert not is_left_to_the_strict_kernel(*draw("normal", 300, 300, 300), kernel_cache)


@pytest.mark.parametrize("operand", [0, 1])
@pytest.mark.parametrize(
    "value", [np.inf, -np.inf, np.nan, 3.4e38, 2.0**-104, 1e-40, -1e-45], ids=str
)
def test_elements_beyond_bfloat16_are_left_to_the_strict_kernel(operand, value, kernel_cache):
    operands = draw("normal", 300, 260, 400)
    operands[operand][257, 11] = value
    assert is_left_to_the_strict_kernel(*operands, kernel_cache)
    product = multiply(TENSOR, *operands, kernel_cache)
    with np.errstate(invalid="ignore", over="ignore"):
        expected = operands[0].astype(np.float64) @ operands[1].astype(np.float64)
    touched = product[257] if operand == 0 else product[:, 11]
    if not np.isfinite(value):
        wanted = expected[257] if operand == 0 else expected[:, 11]
        np.testing.assert_array_equal(touched, wanted.astype(np.float32))
    assert np.isfinite(product).sum() >= product.size - touched.size


@pytest.mark.parametrize("scales", [(2.0**70, 2.0**54), (2.0**-60, 2.0**-50), (0.0, 1.0)])
def test_sums_that_overflow_or_vanish_are_left_to_the_strict_kernel(scales, kernel_cache):
    a, b = draw("normal", 200, 200, 300)
    a, b = a * np.float32(scales[0]), b * np.float32(scales[1])
    assert is_left_to_the_strict_kernel(a, b, kernel_cache)


@pytest.mark.parametrize("k", [1, 31, LEAST_TERMS_K - 1])
def test_elements_of_few_products_are_rounded_once(k, kernel_cache):
    a, b = draw("wide", 201, 300, k)
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    expected, scale = wide_a @ wide_b, abs(wide_a) @ abs(wide_b)
    error = abs(multiply(TENSOR, a, b, kernel_cache) - expected)
    assert (error <= 2.0**-24 * abs(expected) + k * 2.0**-50 * scale).all()


@pytest.mark.parametrize("sms", [1, 3, 64, None])
@pytest.mark.parametrize("k", [100, 128, 700])
def test_a_held_product_has_the_same_bits(sms, k, kernel_cache):
    a, b = draw("normal", 900, 1100, k)
    spoiled = a.copy()
    spoiled[3, 7] = np.inf
    for operand in (a, spoiled):
        alone = multiply(TENSOR, operand, b, kernel_cache)
        limited = multiply(TENSOR, operand, b, kernel_cache, sms=sms or count_sms())
        np.testing.assert_array_equal(limited, alone)


@pytest.mark.parametrize("sms", [1, 5, 132])
@pytest.mark.parametrize("spec", HOLDABLE_FLOAT64, ids=lambda spec: spec.label)
@pytest.mark.parametrize("shape", [(1, 1, 1), (333, 1021, 257), (1000, 776, 512)], ids=str)
def test_a_held_float64_product_is_right(shape, spec, sms, kernel_cache):
    m, n, k = shape
    a, b = make_matrix(m, k, "float64", 1), make_matrix(k, n, "float64", 2)
    limited = multiply(spec, a, b, kernel_cache, sms=min(sms, count_sms()))
    np.testing.assert_array_equal(limited, multiply(spec, a, b, kernel_cache))
    assert_product(limited, a, b)


def test_a_verdict_holds_for_one_product_only(kernel_cache):
    a, b = draw("normal", 300, 300, 300)
    spoiled = a.copy()
    spoiled[0, 0] = np.nan
    first = multiply(TENSOR, a, b, kernel_cache)
    multiply(TENSOR, spoiled, b, kernel_cache)
    np.testing.assert_array_equal(multiply(TENSOR, a, b, kernel_cache), first)


@pytest.mark.parametrize("seed", range(3))
def test_products_on_different_streams_do_not_disturb_each_other(seed, kernel_cache):
    import cupy

    pairs = [draw("normal", 500, 400, 300 + seed + i) for i in range(4)]
    alone = [multiply(TENSOR, a, b, kernel_cache) for a, b in pairs]
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in pairs]
    operands = [
        (cupy.asarray(a), cupy.asarray(b), cupy.empty((500, 400), np.float32)) for a, b in pairs
    ]
    cupy.cuda.Device().synchronize()
    for stream, arrays in zip(streams, operands, strict=True):
        with stream:
            multiply_on_device(TENSOR, *arrays, cache_dir=kernel_cache)
    cupy.cuda.Device().synchronize()
    for arrays, expected in zip(operands, alone, strict=True):
        np.testing.assert_array_equal(cupy.asnumpy(arrays[2]), expected)


def test_the_pipeline_streams_a_product_through_the_tensor_kernel(open_pipeline):
    a, b = make_matrix(1100, 1000, "float32", 1), make_matrix(1000, 900, "float32", 2)
    before = make_matrix(1100, 900, "float32", 3)
    for limit in (16 << 20, 12 << 20, 3 << 20, 700 << 10, None):
        pipeline = open_pipeline(gpu_memory_bytes=limit)
        for beta in (0.0, 2.0):
            c = before.copy() if beta else make_output(1100, 900, "float32")
            compute(pipeline, TENSOR, a, b, c, beta=beta)
            assert_product(c, a, b, before, beta=beta)


@pytest.mark.parametrize("row", [0, 1500])
@pytest.mark.parametrize(
    ("shape", "stretch", "steps_of_b"), [((4000, 300, 2000), 10.0, 1), ((2000, 4100, 2000), 1.0, 6)]
)
def test_an_infinity_in_b_reaches_every_panel(shape, stretch, steps_of_b, row, open_pipeline):
    m, n, k = shape
    problem = PanelProblem(m, n, k, 4, 128, 128, 32, 7, TENSOR.term_item_bytes)
    rate = RATES.in_bytes_per_second / stretch
    rates = replace(RATES, in_bytes_per_second=rate, out_bytes_per_second=rate)
    plan = plan_steps(problem, rates, 1 << 30)
    steps = plan.steps
    assert len({step.rows for step in steps}) > 1
    assert [step.loads_b for step in steps].count(True) == steps_of_b
    a, b = make_matrix(m, k, "float32", 1), make_matrix(k, n, "float32", 2)
    b[row, 5] = np.inf
    c = make_output(m, n, "float32")
    pipeline = open_pipeline(gpu_memory_bytes=1 << 30)
    compute(pipeline, TENSOR, a, b, c, plan.cut, sms=7)
    np.testing.assert_array_equal(c[:, 5], np.where(a[:, row] > 0, np.inf, -np.inf))
    others = np.arange(n) != 5
    assert_product(c[:, others], a, np.ascontiguousarray(b[:, others]))
