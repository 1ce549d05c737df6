"""CPU pools for tests: with threads in C, and with threads in Python."""

import pytest

from wavetrim.cpu.gemm import CpuPool


@pytest.fixture(scope="session", params=["C", "Python"])
def open_pool(request, kernel_cache):
    """Opens a pool with a number of threads; skips where the library is compiled already.

    A pool without a folder to compile into has threads in Python, unless the library is compiled
    next to its source.
    """
    in_c = request.param == "C"

    def open_pool(threads):
        pool = CpuPool(threads, cache_dir=kernel_cache if in_c else None)
        if pool.prepare() != in_c:
            pool.close()
            assert not in_c, "there is no C compiler, or NumPy has no OpenBLAS"
            pytest.skip("the library is compiled next to its source")
        return pool

    return open_pool
