"""CPU pools for tests: with threads in C, and with threads in Python."""

from collections.abc import Callable
from pathlib import Path

import pytest

from wavetrim.cpu.gemm import CpuPool


@pytest.fixture(scope="session", params=["native", "python"])
def open_pool(request: pytest.FixtureRequest, kernel_cache: Path) -> Callable[[int], CpuPool]:
    """Opens a pool of so many threads; skips where there is no C compiler or no BLAS to call."""
    if request.param == "python":
        return lambda threads: CpuPool(threads, native=False)

    def open_native(threads: int) -> CpuPool:
        pool = CpuPool(threads, cache_dir=kernel_cache)
        if not pool.prepare():
            pool.close()
            pytest.skip("needs a C compiler on the PATH, and NumPy's OpenBLAS")
        return pool

    return open_native
