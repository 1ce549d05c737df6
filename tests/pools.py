"""CPU pools for tests: with threads in C, and with threads in Python."""

from collections.abc import Callable
from pathlib import Path

import pytest

from wavetrim.cpu.gemm import CpuPool


@pytest.fixture(scope="session", params=["C", "Python"])
def open_pool(request: pytest.FixtureRequest, kernel_cache: Path) -> Callable[[int], CpuPool]:
    """Opens a pool with a number of threads; skips where they cannot be of this kind.

    A pool without a folder to compile into has threads in Python, unless the library is compiled
    next to its source.
    """
    in_c = request.param == "C"

    def open_pool(threads: int) -> CpuPool:
        pool = CpuPool(threads, cache_dir=kernel_cache if in_c else None)
        if pool.prepare() != in_c:
            pool.close()
            missing = "needs a C compiler on the PATH, and NumPy's OpenBLAS"
            pytest.skip(missing if in_c else "the library is compiled next to its source")
        return pool

    return open_pool
