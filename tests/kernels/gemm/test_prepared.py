"""Prepared launches: their arguments and calls, and products that reuse them."""

import numpy as np
import pytest

from tests.kernels.specs import SPECS, compute, name_spec, needs
from tests.matrices import assert_product, make_matrix, make_output, pin_copy
from tests.rates import RATES, plan_steps
from wavetrim.kernels.catalog import find_kernel
from wavetrim.kernels.device import list_devices
from wavetrim.kernels.schedule.panels import PanelProblem
from wavetrim.kernels.transfer.pinned import lock_matrix

pytestmark = pytest.mark.gpu

KERNELS = [
    spec
    for spec in (
        *(find_kernel("bulk", "float32", tile) for tile in ("128x256", "128x128")),
        *(find_kernel(name, "float32") for name in ("register", "shared", "tensor", "cublas")),
        *(find_kernel(name, "float64") for name in ("register", "tensor", "cublas")),
        *(find_kernel("cublas", dtype) for dtype in ("bfloat16", "complex64", "complex128")),
        *(find_kernel("tensor", dtype) for dtype in ("float16", "bfloat16")),
    )
    if spec in SPECS
]
with_kernels = pytest.mark.parametrize("spec", KERNELS, ids=name_spec)
BULK = find_kernel("bulk", "float32")
needs_bulk = needs(BULK)
BULK_PANELS = {"tile_m": BULK.tile.m, "tile_n": BULK.tile.n, "tile_k": BULK.tile.k}


def multiply(pipeline, spec, shape, seed, **options):
    """One product of page-locked operands that the seed decides, against its reference."""
    m, n, k = shape
    a, b = make_matrix(m, k, spec.dtype, seed), make_matrix(k, n, spec.dtype, seed + 1)
    before = make_matrix(m, n, spec.dtype, seed + 2)
    c = pin_copy(before if options.get("beta") else make_output(m, n, spec.dtype))
    compute(pipeline, spec, pin_copy(a), pin_copy(b), c, **options)
    options.pop("sms", None)
    assert_product(c, a, b, before, **options)


@with_kernels
def test_a_cached_plan_uses_the_operands_and_factors_of_each_product(pipeline, spec):
    shape = 1500, 700, 900
    for seed, factors in enumerate(((1, 0), (1, 0), (-2.5, 0), (0.5, 1.5), (1, 0), (0.5, 1.5))):
        alpha, beta = factors
        multiply(pipeline, spec, shape, seed, alpha=float(alpha), beta=float(beta))


@with_kernels
def test_other_plans_and_larger_buffers_in_between_change_nothing(open_pipeline, spec):
    pipeline = open_pipeline()
    small, other, large = (700, 300, 500), (333, 409, 1021), (3000, 2500, 800)
    thin, short = (900, 5, 300), (900, 300, 7)  # whose rows are too short to be aligned
    shapes = (small, other, thin, small, large, short, small, other, thin, large, short)
    for seed, shape in enumerate(shapes):
        multiply(pipeline, spec, shape, seed)


@needs_bulk
@pytest.mark.parametrize("beta", [0.0, 0.5])
def test_each_of_many_launches_finds_its_flags_cleared(open_pipeline, beta):
    shape, limit = (197 * BULK.tile.m - 3, 256, 512), 3 << 19
    slots = list_devices()[0].sm_count
    problem = PanelProblem(*shape, 4, **BULK_PANELS, slots=slots, stream_k_tail=True)
    assert len(plan_steps(problem, RATES, limit).steps) > 128
    pipeline = open_pipeline(gpu_memory_bytes=limit)
    for seed in range(3):
        multiply(pipeline, BULK, shape, seed, beta=beta)


@needs_bulk
def test_without_memory_for_partial_sums_another_kernel_computes(open_pipeline):
    import cupy

    shape = 130, 250, 3000  # few tiles and a long K: they are shared
    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    pipeline = open_pipeline()
    try:
        pool.set_limit(size=max(1, pool.total_bytes()))
        multiply(pipeline, BULK, shape, 1)
        pool.set_limit(size=0)
        for seed in (2, 3):
            multiply(pipeline, BULK, shape, seed)
    finally:
        pool.set_limit(size=0)


def test_memory_that_is_no_longer_page_locked_is_staged(pipeline):
    spec = find_kernel("register", "float32")
    a, b = make_matrix(900, 400, "float32", 1), make_matrix(400, 500, "float32", 2)
    for _ in range(2):
        c = make_output(900, 500, "float32")
        with lock_matrix(a), lock_matrix(b), lock_matrix(c):
            compute(pipeline, spec, a, b, c)
        assert_product(c, a, b)
        c[...] = np.nan
        compute(pipeline, spec, a, b, c)
        assert_product(c, a, b)
