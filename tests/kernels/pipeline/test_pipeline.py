"""The pipeline on a GPU: every layout, factor and memory limit against float64 references."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.kernels.specs import SPECS, compute
from tests.matrices import assert_product, make_matrix, make_output, padding_of, pin_copy
from tests.rates import RATES, find_cut, plan_steps
from wavetrim.kernels.catalog import find_kernel
from wavetrim.kernels.errors import PipelineCancelled
from wavetrim.kernels.pipeline.host_product import GpuHooks, HostProduct
from wavetrim.kernels.pipeline.team import Team, TeamPart
from wavetrim.kernels.schedule.panels import Cut, PanelProblem

pytestmark = pytest.mark.gpu

SHAPES = [
    (1, 1, 1),
    (1, 517, 129),
    (517, 1, 129),
    (127, 129, 1),
    (333, 409, 1021),
    (1031, 769, 257),
]
TENSORS = [find_kernel("tensor", dtype) for dtype in ("float16", "bfloat16")]
HALVES = [spec for spec in TENSORS if spec in SPECS]
KERNELS = [
    *(find_kernel("cublas", dtype) for dtype in ("float32", "float64", "float16", "bfloat16")),
    *(find_kernel("cublas", dtype) for dtype in ("complex64", "complex128")),
    find_kernel("register", "float32"),
    find_kernel("shared", "float64"),
]
STREAMING = {"rows": 12 << 20, "columns": 3 << 20, "depth": 700 << 10}
"""Memory limits under which 1100 × 900 × 1000 of float32 streams in different ways."""


def draw(m, n, k, dtype):
    return make_matrix(m, k, dtype, 1), make_matrix(k, n, dtype, 2)


@pytest.mark.parametrize("spec", [*KERNELS, *HALVES], ids=lambda spec: spec.label)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_ragged_products_agree_with_float64(pipeline, spec, shape):
    m, n, k = shape
    a, b = draw(m, n, k, spec.dtype)
    c = make_output(m, n, spec.dtype)
    compute(pipeline, spec, a, b, c)
    assert_product(c, a, b)


@pytest.mark.parametrize("spec", [*KERNELS[:6], *HALVES], ids=lambda spec: spec.label)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("factors", [(1.0, 0.0), (-2.5, 0.0), (1.0, 1.0), (0.5, -3.0)], ids=str)
def test_factors_and_layouts_give_the_reference_product(pipeline, spec, order, factors):
    alpha, beta = factors
    layout = "F" if order == "F" else "C"
    a = make_matrix(611, 333, spec.dtype, 1, leading_dimension=700, order=layout)
    b = make_matrix(333, 477, spec.dtype, 2, leading_dimension=500, order=layout)
    before = make_matrix(611, 477, spec.dtype, 3)
    c = make_output(611, 477, spec.dtype, leading_dimension=640, order=layout)
    if beta != 0:
        c[...] = before
    compute(pipeline, spec, a, b, c, alpha=alpha, beta=beta)
    assert_product(c, a, b, before, alpha=alpha, beta=beta)
    assert np.all(np.isnan(padding_of(c)))


def test_strided_and_reversed_views_are_multiplied(pipeline):
    a, b = draw(600, 500, 400, "float32")
    c = make_output(600, 500, "float32")
    strided = np.repeat(a, 3, axis=1)[:, ::3]
    compute(pipeline, KERNELS[0], strided, np.ascontiguousarray(b[::-1])[::-1], c[::-1])
    assert_product(c[::-1], a, b)


@pytest.mark.parametrize("memory", ["pageable", "pinned"])
@pytest.mark.parametrize("beta", [0.0, 2.0])
@pytest.mark.parametrize("way", STREAMING)
def test_products_larger_than_the_memory_stream_through_it(open_pipeline, way, beta, memory):
    spec, (m, n, k) = find_kernel("register", "float32", "64x64"), (1100, 900, 1000)
    limit = STREAMING[way]
    sizes = plan_steps(PanelProblem(m, n, k, 4, 64, 64, 16, 132), RATES, limit).buffers
    cut = {"rows": sizes.rows < m, "columns": sizes.columns < n, "depth": sizes.depth < k}
    assert cut[way]
    a, b = draw(m, n, k, "float32")
    before = make_matrix(m, n, "float32", 3)
    place = pin_copy if memory == "pinned" else np.asarray
    a, b = place(a), place(b)
    pipeline = open_pipeline(gpu_memory_bytes=limit)
    for _ in range(2):  # the second call finds the buffers in use before
        c = place(before.copy() if beta else make_output(m, n, "float32"))
        rows = []
        compute(pipeline, spec, a, b, c, beta=beta, hooks=GpuHooks(rows.append))
        assert_product(c, a, b, before, beta=beta)
        assert sum(rows) == m


@pytest.mark.parametrize("memory", ["pageable", "pinned"])
@pytest.mark.parametrize("beta", [0.0, 2.0])
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((1031, 20_011, 129), "float32"),
        ((700, 9001, 300), "float64"),
        ((512, 509, 65_536), "float32"),
        ((2500, 3607, 2051), "float32"),
        ((2111, 6503, 4099), "float64"),
        ((1100, 3001, 2051), "complex128"),
    ],
    ids=str,
)
def test_a_first_panel_in_several_steps_is_right(pipeline, shape, dtype, beta, memory):
    m, n, k = shape
    spec = find_kernel("cublas", dtype)
    cut = Cut(first_rows=m // 2, panel_rows=256, depth=-(-k // 256) * 64)
    a, b = draw(m, n, k, dtype)
    before = make_matrix(m, n, dtype, 3)
    c = before.copy() if beta else make_output(m, n, dtype)
    if memory == "pinned":
        a, b, c = (pin_copy(one) for one in (a, b, c))
    rows = []
    compute(pipeline, spec, a, b, c, cut, beta=beta, hooks=GpuHooks(rows.append))
    assert_product(c, a, b, before, beta=beta)
    assert sum(rows) == m


@pytest.mark.parametrize("beta", [0.0, 2.0])
@pytest.mark.parametrize("timed", [False, True])
def test_a_product_is_enqueued_at_once_and_awaited_later(pipeline, *, timed, beta):
    spec, (m, n, k) = find_kernel("register", "float32", "64x64"), (3000, 900, 500)
    a, b = (pin_copy(one) for one in draw(m, n, k, "float32"))
    before = make_matrix(m, n, "float32", 3) if beta else None
    c = pin_copy(make_output(m, n, "float32") if before is None else before)
    reported = []
    final = []
    team = Team([TeamPart(pipeline, range(m), range(n), find_cut(c, a))], exchanges=False)
    finish = team.enqueue(
        HostProduct(spec, a, b, c, alpha=1.0, beta=beta, timed=timed),
        hooks=[GpuHooks(reported.append, final.append)],
    )
    others = threading.Thread(target=pipeline.keep, args=("other", b))
    others.start()
    (timings,) = finish()
    others.join(60)
    assert_product(c, a, b, before, beta=beta)
    assert sum(reported) == m
    assert final[-1] == range(m)
    assert 0 < timings.gpu_seconds < 1
    assert (timings.kernel_seconds is not None) == timed


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("beta", [1e-30, 1e30])
def test_half_precision_is_scaled_by_factors_beyond_its_range(pipeline, beta, dtype):
    a, c = np.ones((1, 1), dtype), np.full((1, 1), np.inf, dtype)
    compute(pipeline, find_kernel("cublas", dtype), a, a.copy(), c, alpha=0.0, beta=beta)
    assert c.tolist() == [[np.inf]]


def test_alpha_zero_reads_neither_a_nor_b(pipeline):
    a, c = make_output(64, 64, "float32"), np.ones((64, 64), np.float32)
    told = []
    hooks = GpuHooks(told.append, told.append)
    compute(pipeline, KERNELS[0], a, a.copy(), c, alpha=0.0, beta=2.0, hooks=hooks)
    assert np.all(c == 2)
    assert told == [64, range(64)]
    compute(pipeline, KERNELS[0], a, a.copy(), c, alpha=0.0)
    assert np.all(c == 0)


def test_a_cancelled_product_ends_early_and_the_pipeline_goes_on(open_pipeline):
    spec = KERNELS[0]
    a, b = draw(4000, 3000, 2000, "float32")
    pipeline = open_pipeline(gpu_memory_bytes=32 << 20)
    rows = []
    with pytest.raises(PipelineCancelled):
        compute(
            pipeline,
            *(spec, a, b, make_output(4000, 3000, "float32")),
            hooks=GpuHooks(rows.append, cancelled=lambda: bool(rows)),
        )
    assert 0 < sum(rows) < 4000
    c = make_output(4000, 3000, "float32")
    compute(pipeline, spec, a, b, c)
    assert_product(c[:200], a[:200], b)


def test_an_error_of_the_caller_leaves_the_pipeline_usable(pipeline):
    a, b = draw(2500, 300, 200, "float32")
    c = make_output(2500, 300, "float32")

    def fail(rows):
        raise LookupError("the caller's own error")

    with pytest.raises(LookupError, match="own error"):
        compute(pipeline, KERNELS[0], a, b, c, hooks=GpuHooks(fail))
    compute(pipeline, KERNELS[0], a, b, c)
    assert_product(c, a, b)


def test_panels_shrink_to_the_memory_that_others_leave_free(open_pipeline):
    import cupy

    a, b = draw(3000, 3000, 3000, "float32")
    c = make_output(3000, 3000, "float32")
    pipeline = open_pipeline()
    others = []
    try:
        compute(pipeline, KERNELS[0], a[:8], b[:, :8].copy(), c[:8, :8])  # loads modules
        others.append(cupy.cuda.Memory(cupy.cuda.runtime.memGetInfo()[0] - (160 << 20)))
        compute(pipeline, KERNELS[0], a, b, c)
        assert_product(c, a, b)
    finally:
        others.clear()  # or a traceback would keep the memory


def test_concurrent_callers_take_turns(pipeline):
    def work(size):
        a, b = draw(size, size + 1, size + 2, "float32")
        for _ in range(5):
            c = make_output(size, size + 1, "float32")
            compute(pipeline, KERNELS[0], a, b, c)
            assert_product(c, a, b)

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(work, (300, 501)))


def test_the_rows_of_a_small_pageable_product_are_final_when_reported(pipeline):
    a, b = draw(500, 300, 400, "float64")
    c = make_output(500, 300, "float64")
    expected = a @ b
    told = []

    def check(rows):
        assert np.allclose(c[rows.start : rows.stop], expected[rows.start : rows.stop])
        told.append(rows)

    spec = find_kernel("cublas", "float64")
    compute(pipeline, spec, a, b, c, hooks=GpuHooks(final=check))
    assert told == [range(500)]
    timed = compute(pipeline, spec, a, b, c, timed=True)
    assert 0 < timed.kernel_seconds < timed.gpu_seconds


@pytest.mark.parametrize("order", ["C", "F"])
def test_without_a_c_library_cuda_copies_pageable_memory(open_pipeline, monkeypatch, order):
    monkeypatch.setattr(
        "wavetrim.kernels.pipeline.pipeline.open_copiers", lambda *_args, **_names: None
    )
    monkeypatch.setattr("wavetrim.kernels.pipeline.plain_path._PACKED_BYTES", 1 << 20)  # in parts
    pipeline = open_pipeline(gpu_memory_bytes=STREAMING["rows"])
    a, b = (np.asarray(matrix, order=order) for matrix in draw(1100, 900, 1000, "float32"))
    c = np.asarray(make_output(1100, 900, "float32"), order=order)
    compute(pipeline, find_kernel("cublas", "float32"), a, b, c)
    assert_product(c, a, b)
