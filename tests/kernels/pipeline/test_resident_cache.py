"""Resident operands: the least recently used leave first, and products are always right."""

import numpy as np
import pytest

from tests.kernels.specs import compute
from tests.matrices import assert_product, make_matrix, make_output, pin_copy
from tests.rates import make_rates, plan_steps
from wavetrim.kernels.catalog import find_kernel
from wavetrim.kernels.gemm.operands import Layout
from wavetrim.kernels.pipeline.resident_cache import Resident, ResidentCache
from wavetrim.kernels.schedule.panels import PanelProblem

MIB = 1 << 20


def keep_all(residents, keys):
    """Keep residents of 4 MiB, in order."""
    for key in keys:
        residents.shrink(residents.limit_bytes - 4 * MIB)
        layout = Layout(0, 1, MIB, MIB, 4)
        residents.add(key, Resident(layout, 4 * MIB, object()))


def test_the_least_recently_used_resident_leaves_first():
    residents = ResidentCache(12 * MIB)
    keep_all(residents, "abc")
    assert residents.use("a") is not None
    keep_all(residents, "d")
    assert [key in residents for key in "abcd"] == [True, False, True, True]
    counts = residents.count()
    assert (counts.size_bytes, counts.operands, counts.limit_bytes) == (12 * MIB, 3, 12 * MIB)
    assert (counts.uses, counts.fetches, counts.evictions) == (1, 4, 1)


def test_a_forgotten_resident_lives_on_for_its_user_only():
    residents = ResidentCache(12 * MIB)
    keep_all(residents, "a")
    used = residents.use("a")
    residents.forget("a")
    residents.forget("never there")
    assert used.memory is not None
    assert residents.use("a") is None
    assert (residents.size_bytes, residents.count().evictions) == (0, 0)


def find_resident_cut(spec, c, a):
    """How C = A·B is cut where B is resident."""
    tile, k = spec.tile, a.shape[1]
    problem = PanelProblem(
        *(*c.shape, k, c.itemsize, tile.m, tile.n, tile.k, 132),
        spec.term_item_bytes if k >= spec.least_k else 0,
        b_resident=True,
    )
    return plan_steps(problem, make_rates(problem), 1 << 36).cut


def lie_in(memory):
    return pin_copy if memory == "pinned" else np.asarray


def multiply_here(pipeline, spec, a, b, key, **how):
    """A·B with a resident B, while B in host memory is wrong."""
    assert key in pipeline.residents
    c = how.pop("c", None)
    if c is None:
        c = make_output(a.shape[0], b.shape[1], spec.dtype)
    wrong = np.full_like(b, 99)
    resident = pipeline.residents.use(key)
    compute(pipeline, spec, a, wrong, c, find_resident_cut(spec, c, a), resident_b=resident, **how)
    return c


KERNELS = [
    *(find_kernel("cublas", dtype) for dtype in ("float32", "float64", "float16", "bfloat16")),
    find_kernel("cublas", "complex128"),
    find_kernel("register", "float32"),
    find_kernel("bulk", "float32"),
    find_kernel("tensor", "float32"),
    find_kernel("tensor", "float64"),
]


@pytest.mark.gpu
@pytest.mark.parametrize("memory", ["pinned", "pageable"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (64, 2051, 4099), (333, 409, 1021), (2500, 517, 129)])
@pytest.mark.parametrize("spec", KERNELS, ids=lambda spec: spec.label)
def test_products_with_a_resident_b_are_right(pipeline, spec, shape, memory):
    m, n, k = shape
    place = lie_in(memory)
    b = place(make_matrix(k, n, spec.dtype, 2))
    key = f"{spec.label} {shape} {memory}"
    assert pipeline.keep(key, b)
    for rows in (m, m, 2 * m + 1):  # the second one repeats what the first has prepared
        a = place(make_matrix(rows, k, spec.dtype, rows))
        c = place(make_output(rows, n, spec.dtype))
        assert_product(multiply_here(pipeline, spec, a, b, key, c=c), a, b)
    pipeline.residents.forget(key)


@pytest.mark.gpu
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("beta", [0.0, 2.0])
def test_b_may_lie_by_columns_or_with_gaps(pipeline, order, beta):
    spec = KERNELS[0]
    b = make_matrix(700, 523, spec.dtype, 2, leading_dimension=800, order=order)
    a, before = make_matrix(611, 700, spec.dtype, 1), make_matrix(611, 523, spec.dtype, 3)
    assert pipeline.keep(f"gaps {order} {beta}", b)
    c = before.copy()
    multiply_here(pipeline, spec, a, b, f"gaps {order} {beta}", c=c, alpha=-1.5, beta=beta)
    assert_product(c, a, b, before, alpha=-1.5, beta=beta)


@pytest.mark.gpu
@pytest.mark.parametrize("memory", ["pinned", "pageable"])
@pytest.mark.parametrize("spec", [KERNELS[0], KERNELS[6], KERNELS[7]], ids=lambda spec: spec.label)
def test_two_residents_and_a_copied_b_of_one_shape_take_turns(pipeline, spec, memory):
    place = lie_in(memory)
    a, c = place(make_matrix(300, 900, spec.dtype, 1)), place(make_output(300, 700, spec.dtype))
    first, second, third = (place(make_matrix(900, 700, spec.dtype, seed)) for seed in (2, 3, 4))
    assert pipeline.keep("first", first)
    assert pipeline.keep("second", second)
    for _ in range(3):
        assert_product(multiply_here(pipeline, spec, a, first, "first", c=c), a, first)
        compute(pipeline, spec, a, third, c)
        assert_product(c, a, third)
        assert_product(multiply_here(pipeline, spec, a, second, "second", c=c), a, second)


@pytest.mark.gpu
def test_a_forgotten_b_is_copied_in_again(pipeline):
    spec, shape = KERNELS[0], (900, 700)
    a, c = (
        pin_copy(make_matrix(300, 900, spec.dtype, 1)),
        pin_copy(make_output(300, 700, spec.dtype)),
    )
    for number in range(4):  # the driver mostly gives the place that was freed
        b = pin_copy(make_matrix(*shape, spec.dtype, 10 + number))
        key = f"matrix {number}"
        assert pipeline.keep(key, b)
        assert_product(multiply_here(pipeline, spec, a, b, key, c=c), a, b)
        pipeline.residents.forget(key)
        other = pin_copy(make_matrix(*shape, spec.dtype, 20 + number))
        cut, resident = find_resident_cut(spec, c, a), pipeline.residents.use(key)
        compute(pipeline, spec, a, other, c, cut, resident_b=resident)
        assert_product(c, a, other)


@pytest.mark.gpu
@pytest.mark.parametrize("beta", [0.0, 2.0])
@pytest.mark.parametrize("limit", [16 * MIB, 6 * MIB])
def test_residents_and_buffers_stay_within_the_memory_together(open_pipeline, limit, beta):
    spec, (m, n, k) = find_kernel("register", "float32", "64x64"), (1100, 700, 600)
    pipeline = open_pipeline(gpu_memory_bytes=limit)
    operands = [make_matrix(k, n, "float32", seed) for seed in range(9)]
    a, before = make_matrix(m, k, "float32", 50), make_matrix(m, n, "float32", 51)
    for number in (*range(9), 0, 8):
        b, key = operands[number], str(number)
        assert pipeline.keep(key, b)
        c = before.copy() if beta else make_output(m, n, "float32")
        multiply_here(pipeline, spec, a, b, key, c=c, beta=beta)
        assert_product(c, a, b, before, beta=beta)
        assert pipeline.residents.size_bytes <= limit // 2
        assert pipeline.residents.size_bytes + pipeline.memory.size_bytes <= limit
    counts = pipeline.residents.count()
    assert counts.evictions > 0
    assert counts.fetches >= 10
    assert not pipeline.keep("too large", make_matrix(3000, 700, "float32", 61))
    wide_a, c = make_matrix(4000, k, "float32", 60), make_output(4000, n, "float32")
    compute(pipeline, spec, wide_a, operands[3], c)  # buffers first
    assert_product(c, wide_a, operands[3])
    assert pipeline.residents.size_bytes + pipeline.memory.size_bytes <= limit
