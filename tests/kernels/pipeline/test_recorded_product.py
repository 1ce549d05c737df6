"""Recorded products: right for other operands and other device memory, and refused where unsafe."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.matrices import Array, make_matrix, pin_copy
from tests.rates import find_cut
from wavetrim.kernels.catalog import find_kernel
from wavetrim.kernels.errors import DeviceFailure
from wavetrim.kernels.pipeline.commands.submission import Submitter
from wavetrim.kernels.pipeline.pipeline import GpuPipeline
from wavetrim.kernels.pipeline.recorded_product import RecordedProduct
from wavetrim.kernels.spec import KernelSpec
from wavetrim.kernels.transfer.pinned import pin_matrix

pytestmark = pytest.mark.gpu

SHAPE = 517, 389, 261


def draw(seed: int) -> tuple[Array, Array, Array]:
    m, n, k = SHAPE
    a, b = make_matrix(m, k, "float32", seed), make_matrix(k, n, "float32", seed + 1)
    return pin_copy(a), pin_copy(b), pin_matrix(m, n, "float32")


def record(
    pipeline: GpuPipeline, spec: KernelSpec, *, alpha: float = 1.0, beta: float = 0.0
) -> RecordedProduct:
    m, n, k = SHAPE
    cut = find_cut(np.empty((m, n), np.float32), np.empty((m, k), np.float32))
    return RecordedProduct(pipeline, spec, SHAPE, cut=cut, alpha=alpha, beta=beta, sms=None)


def check(
    recorded: RecordedProduct, *, alpha: float = 1.0, beta: float = 0.0, seed: int = 1
) -> None:
    a, b, c = draw(seed)
    c[...] = 7.0 if beta else np.nan
    wanted = alpha * (a.astype(float) @ b) + (beta * c if beta else 0.0)
    assert recorded.run(a, b, c)
    assert np.allclose(c, wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kernel", ["cublas", "register"])
@pytest.mark.parametrize("factors", [(1.0, 0.0), (-2.5, 0.5)], ids=str)
def test_it_serves_other_operands_of_the_shape(
    pipeline: GpuPipeline, kernel: str, factors: tuple[float, float]
) -> None:
    alpha, beta = factors
    recorded = record(pipeline, find_kernel(kernel, "float32"), alpha=alpha, beta=beta)
    for seed in (1, 3, 5):
        check(recorded, alpha=alpha, beta=beta, seed=seed)


def test_it_serves_device_memory_that_was_divided_anew(pipeline: GpuPipeline) -> None:
    spec = find_kernel("cublas", "float32")
    recorded = record(pipeline, spec)
    for size in (2000, 3000, 4000):
        check(recorded, seed=size)
        a, c = pin_matrix(size, 1200, "float32"), pin_matrix(size, size, "float32")
        pipeline.multiply(spec, a, pin_matrix(1200, size, "float32"), c, cut=find_cut(c, a))


def lend_other_memory(a: Array, b: Array, c: Array) -> tuple[Array, Array, Array]:
    return a.copy(), b, c


def lend_columns(a: Array, b: Array, c: Array) -> tuple[Array, Array, Array]:
    wide = pin_matrix(a.shape[0], a.shape[1] + 1, a.dtype)
    wide[:, 1:] = a
    return wide[:, 1:], b, c


def lend_the_rows_of_a(a: Array, b: Array, c: Array) -> tuple[Array, Array, Array]:
    both = pin_matrix(1, max(a.size, c.size), a.dtype)[0]
    return both[: a.size].reshape(a.shape), b, both[-c.size :].reshape(c.shape)


def lend_for_reading(a: Array, b: Array, c: Array) -> tuple[Array, Array, Array]:
    c.flags.writeable = False
    return a, b, c


def lend_a_shorter_b(a: Array, b: Array, c: Array) -> tuple[Array, Array, Array]:
    return a, b[1:], c


def lend_another_type(a: Array, b: Array, c: Array) -> tuple[Array, Array, Array]:
    return a.view("int32"), b, c


@pytest.mark.parametrize(
    "lend",
    [
        lend_other_memory,
        lend_columns,
        lend_the_rows_of_a,
        lend_for_reading,
        lend_a_shorter_b,
        lend_another_type,
    ],
)
def test_other_operands_are_left_to_the_pipeline(
    pipeline: GpuPipeline, lend: Callable[[Array, Array, Array], tuple[Array, Array, Array]]
) -> None:
    recorded = record(pipeline, find_kernel("cublas", "float32"))
    a, b, c = lend(*draw(1))
    before = c.copy()
    assert not recorded.run(a, b, c)
    assert np.array_equal(c, before, equal_nan=True)


def test_without_commands_it_is_left_to_the_pipeline(
    kernel_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = GpuPipeline(cache_dir=kernel_cache)
    monkeypatch.setattr(Submitter, "has_gemm", False)
    assert not record(pipeline, find_kernel("cublas", "float32")).run(*draw(1))
    pipeline.close()


def test_after_a_failure_the_gpu_can_be_used_again(
    pipeline: GpuPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise DeviceFailure("no memory")

    recorded = record(pipeline, find_kernel("cublas", "float32"))
    with monkeypatch.context() as patch:
        patch.setattr(Submitter, "run_unwatched", fail)
        with pytest.raises(DeviceFailure, match="no memory"):
            recorded.run(*draw(1))
    check(recorded)
