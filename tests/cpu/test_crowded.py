"""Products on the CPU while other threads want its cores."""

import os
import time

import numpy as np
import pytest

from benchmarks.host.conditions import burn_cores
from tests.limit import allow
from tests.matrices import assert_product
from tests.processes import run_python
from wavetrim.cpu.gemm import CpuPool
from wavetrim.cpu.numpy_products import NumpyProducts
from wavetrim.cpu.threads import usable_cores

pytestmark = [pytest.mark.serial, pytest.mark.slow]

CORES = len(os.sched_getaffinity(0))


@pytest.mark.parametrize("lends_blas", [False, True])
def test_beside_other_processes_a_pool_is_crowded_until_they_have_ended(kernel_cache, lends_blas):
    a, b = np.random.default_rng(1).random((2, 600, 600))
    c = np.empty_like(a)
    with CpuPool(CORES, cache_dir=kernel_cache, lends_blas=lends_blas) as pool:

        def multiply_until(crowded):
            until = time.monotonic() + allow(60)
            while pool.is_crowded != crowded:
                assert time.monotonic() < until, f"crowded is {pool.is_crowded}"
                c.fill(np.nan)
                pool.multiply(a, b, c)
                assert_product(c, a, b)

        assert pool.prepare()
        with burn_cores(2 * CORES):
            multiply_until(crowded=True)
            for side in (20, 150, 600):  # in the calling thread, by NumPy, by blocks
                part = np.empty((side, side))
                pool.multiply(a[:side], b[:, :side], part)
                assert_product(part, a[:side], b[:, :side])
        multiply_until(crowded=False)


def test_products_of_numpy_are_crowded_by_other_processes_and_not_by_their_own_threads():
    numpy, matrix = NumpyProducts(usable_cores()), np.ones((900, 900), np.float32)
    result = np.empty_like(matrix)

    def count_crowded(products):
        crowded = 0
        for _ in range(products):
            result.fill(np.nan)
            numpy.multiply(matrix, matrix, result)
            assert_product(result, matrix, matrix)
            crowded += numpy.is_crowded
        return crowded

    quiet = count_crowded(30)  # BLAS's threads spin after each
    with burn_cores(2 * CORES):
        until = time.monotonic() + allow(30)
        while not numpy.is_crowded:
            assert time.monotonic() < until, "others have the cores"
            numpy.multiply(matrix, matrix, result)
        assert not numpy.suit(900, 900, 900, matrix.dtype), "threads share it"
        assert numpy.suit(100, 100, 100, matrix.dtype), "one thread computes it"
    assert quiet < 30


SPIN = """
import time, numpy
from wavetrim.cpu.spinning import SpinningThreads

def watch(seconds):
    spinning.mark()
    began = time.monotonic()
    while time.monotonic() < began + seconds:
        pass
    return spinning.are_there()

spinning, matrix = SpinningThreads(), numpy.ones((600, 600))
seen = False
while not seen:  # another process may have their cores
    matrix @ matrix
    seen = watch(0.01)
time.sleep(1)
print(watch(0.01))
"""


@pytest.mark.skipif(CORES < 2, reason="BLAS has threads beside the caller's")
def test_threads_of_blas_that_spin_are_seen_until_they_sleep(tmp_path):
    ended = run_python(SPIN, folder=tmp_path, OPENBLAS_THREAD_TIMEOUT="26")
    assert (ended.stdout, ended.stderr) == ("False\n", "")
