"""CPU pools for tests: with threads in C, and with threads in Python."""

from collections.abc import Callable

import pytest

from wavetrim.cpu.gemm import CpuPool


@pytest.fixture(scope="session", params=["native", "python"])
def open_pool(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[int], CpuPool]:
    """Opens a pool of so many threads; skips where there is no C compiler or no BLAS to call."""
    if request.param == "python":
        return lambda threads: CpuPool(threads, native=False)
    cache_dir = tmp_path_factory.mktemp("compiled")

    def open_native(threads: int) -> CpuPool:
        pool = CpuPool(threads, cache_dir=cache_dir)
        if not pool.prepare():
            pool.close()
            pytest.skip("needs a C compiler on the PATH, and NumPy's OpenBLAS")
        return pool

    return open_native
