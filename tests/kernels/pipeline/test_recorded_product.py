"""Recorded products: right for other operands and other device memory, and refused where unsafe."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest

from tests.matrices import Array, make_matrix, pin_copy
from tests.rates import find_cut
from wavetrim.kernels.catalog import find_kernel
from wavetrim.kernels.device import list_devices
from wavetrim.kernels.errors import DeviceFailure
from wavetrim.kernels.pipeline.commands.programs import Programs
from wavetrim.kernels.pipeline.commands.submission import Submitter
from wavetrim.kernels.pipeline.pipeline import GpuPipeline
from wavetrim.kernels.pipeline.recorded_product import (
    RecordedKind,
    RecordedProduct,
    RecordedTeamProduct,
)
from wavetrim.kernels.pipeline.team import Team, TeamPart
from wavetrim.kernels.schedule.steps import Cut
from wavetrim.kernels.transfer.pinned import pin_matrix

pytestmark = pytest.mark.gpu

SHAPE = 517, 389, 261
Recorded: TypeAlias = RecordedProduct | RecordedTeamProduct


def draw(seed: int) -> tuple[Array, Array, Array]:
    m, n, k = SHAPE
    a, b = make_matrix(m, k, "float32", seed), make_matrix(k, n, "float32", seed + 1)
    return pin_copy(a), pin_copy(b), pin_matrix(m, n, "float32")


class Record:
    """Records products on one GPU, or on a team of two, which may be one GPU with two pipelines."""

    def __init__(self, pipelines: list[GpuPipeline]) -> None:
        self.pipelines = pipelines

    def __call__(self, kernel: str, *, alpha: float = 1.0, beta: float = 0.0) -> Recorded:
        kind = RecordedKind(find_kernel(kernel, "float32"), SHAPE, alpha=alpha, beta=beta)
        m, n, k = SHAPE
        if len(self.pipelines) == 1:
            return RecordedProduct(self.pipelines[0], kind, find_part_cut(m, n, k))
        half = 256
        parts = [
            TeamPart(pipeline, rows, range(n), find_part_cut(len(rows), n, k))
            for pipeline, rows in zip(self.pipelines, (range(half), range(half, m)), strict=True)
        ]
        return RecordedTeamProduct(Team(parts, exchanges=True), kind)


def find_part_cut(m: int, n: int, k: int) -> Cut:
    return find_cut(np.empty((m, n), np.float32), np.empty((m, k), np.float32))


@pytest.fixture(params=[1, 2], ids=["one GPU", "team"])
def record(
    request: pytest.FixtureRequest, pipeline: GpuPipeline, kernel_cache: Path
) -> Iterator[Record]:
    if request.param == 1:
        yield Record([pipeline])
        return
    second = GpuPipeline(list_devices()[-1].index, cache_dir=kernel_cache)
    yield Record([pipeline, second])
    second.close()


def check(
    recorded: RecordedProduct | RecordedTeamProduct,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    seed: int = 1,
) -> None:
    a, b, c = draw(seed)
    c[...] = 7.0 if beta else np.nan
    wanted = alpha * (a.astype(float) @ b) + (beta * c if beta else 0.0)
    seconds = recorded.run(a, b, c)
    assert seconds is not None
    assert len(seconds) in (0, 2)
    assert all(one > 0 for one in seconds)
    assert np.allclose(c, wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kernel", ["cublas", "register"])
@pytest.mark.parametrize("factors", [(1.0, 0.0), (-2.5, 0.5)], ids=str)
def test_it_serves_other_operands_of_the_shape(
    record: Record, kernel: str, factors: tuple[float, float]
) -> None:
    alpha, beta = factors
    recorded = record(kernel, alpha=alpha, beta=beta)
    for seed in (1, 3, 5):
        check(recorded, alpha=alpha, beta=beta, seed=seed)


def test_it_serves_device_memory_that_was_divided_anew(record: Record) -> None:
    spec = find_kernel("cublas", "float32")
    recorded = record("cublas")
    for size in (2000, 3000, 4000):
        check(recorded, seed=size)
        a, c = pin_matrix(size, 1200, "float32"), pin_matrix(size, size, "float32")
        last = record.pipelines[-1]
        last.multiply(spec, a, pin_matrix(1200, size, "float32"), c, cut=find_cut(c, a))


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
    record: Record, lend: Callable[[Array, Array, Array], tuple[Array, Array, Array]]
) -> None:
    recorded = record("cublas")
    a, b, c = lend(*draw(1))
    before = c.copy()
    assert recorded.run(a, b, c) is None
    assert np.array_equal(c, before, equal_nan=True)


def test_without_commands_it_is_left_to_the_pipeline(
    record: Record, kernel_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if this CuPy did not tell where cuBLAS is; on GPUs that have no commands yet."""
    monkeypatch.setattr(Submitter, "has_gemm", False)
    new = [GpuPipeline(one.device_index, cache_dir=kernel_cache) for one in record.pipelines]
    assert Record(new)("cublas").run(*draw(1)) is None
    for pipeline in new:
        assert not pipeline.lock.locked()
        pipeline.close()


def test_after_a_failure_the_gpu_can_be_used_again(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise DeviceFailure("no memory")

    recorded = record("cublas")
    with monkeypatch.context() as patch:
        patch.setattr(Submitter, "run_unwatched", fail)
        patch.setattr(Programs, "finish", fail)
        with pytest.raises(DeviceFailure, match="no memory"):
            recorded.run(*draw(1))
    check(recorded)
