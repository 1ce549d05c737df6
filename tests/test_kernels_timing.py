from pathlib import Path

import numpy as np
import pytest

from kernels.catalog import find_kernel
from kernels.errors import DeviceFailure
from kernels.timing import ResidentProduct
from tests.matrices import assert_product, make_matrix

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("shape", [(1, 1, 1), (131, 257, 61), (512, 512, 4)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_each_kernel_leaves_its_own_product(
    dtype: str, shape: tuple[int, int, int], kernel_cache: Path
) -> None:
    m, n, k = shape
    a, b = make_matrix(m, k, dtype, 1), make_matrix(k, n, dtype, 2)
    product = ResidentProduct(a, b, device_index=0, cache_dir=kernel_cache)
    for name in ("simple", "coalesced", "shared"):
        seconds = product.time_launches(find_kernel(name, dtype, "16"), 3)
        assert len(seconds) == 3
        assert all(0 < time < 1 for time in seconds)
        assert_product(product.fetch(), a, b)


def test_more_work_takes_longer(kernel_cache: Path) -> None:
    spec = find_kernel("shared", "float32", "16")

    def measure(size: int) -> float:
        a = make_matrix(size, size, "float32", 1)
        product = ResidentProduct(a, a, device_index=0, cache_dir=kernel_cache)
        return min(product.time_launches(spec, 5))

    assert measure(2048) > 8 * measure(512)


def test_matrices_that_do_not_fit_the_gpu_are_a_failure_that_poisons_nothing(
    kernel_cache: Path,
) -> None:
    tall, wide = np.zeros((2**20, 1), np.float32), np.zeros((1, 2**20), np.float32)
    with pytest.raises(DeviceFailure) as failure:  # C would take 4 TiB
        ResidentProduct(tall, wide, device_index=0, cache_dir=kernel_cache)
    assert not failure.value.poisoned
