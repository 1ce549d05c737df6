"""Products on the CPU, also over HTTP, while other threads want its cores."""

import os
import time

import numpy as np
import pytest

from benchmarks.host.conditions import burn_cores
from tests.limit import allow
from tests.matrices import assert_product
from tests.processes import run_python
from wavetrim.cpu.gemm import CpuPool
from wavetrim.cpu.library import CPU_LIBRARY
from wavetrim.cpu.numpy_products import NumpyProducts
from wavetrim.cpu.threads import usable_cores
from wavetrim.native.library import load_library
from wavetrim.native.pool import ThreadPool

pytestmark = [pytest.mark.serial, pytest.mark.slow]

CORES = len(os.sched_getaffinity(0))


def wait_until(pool, crowded):
    """Wait until the machine is crowded, or is not any more."""
    until = time.monotonic() + allow(60)
    while (pool.find_crowd() == "crowded") != crowded:
        assert time.monotonic() < until, f"the machine is {pool.find_crowd()}"
        time.sleep(0.01)


@pytest.fixture
def threads(kernel_cache):
    """A pool that is asked, on a machine that is quiet."""
    pool = ThreadPool(load_library(CPU_LIBRARY, kernel_cache), 1)
    until = time.monotonic() + 10
    while pool.find_crowd() != "quiet":
        if time.monotonic() > until:
            pytest.skip("other programs use the cores")
        time.sleep(0.01)
    yield pool
    pool.close()


def test_the_machine_is_crowded_until_other_processes_have_ended(kernel_cache, threads):
    a, b = np.random.default_rng(1).random((2, 600, 600))
    with CpuPool(CORES, cache_dir=kernel_cache) as pool:
        with burn_cores(2 * CORES):
            wait_until(threads, crowded=True)
            for side in (20, 150, 600):  # in the calling thread, by NumPy, by blocks
                part = np.empty((side, side))
                pool.multiply(a[:side], b[:, :side], part)
                assert_product(part, a[:side], b[:, :side])
        wait_until(threads, crowded=False)


def test_threads_of_pools_do_not_crowd_the_machine(kernel_cache, threads):
    a, crowded = np.ones((600, 600)), 0
    with CpuPool(4 * CORES, cache_dir=kernel_cache) as pool:
        for _ in range(100):
            pool.multiply(a, a, np.empty_like(a))
            crowded += threads.find_crowd() != "quiet"  # the pool's threads are still awake
    assert crowded < 50


def test_products_of_numpy_are_crowded_by_other_processes_and_not_by_their_own_threads():
    numpy, matrix = NumpyProducts(usable_cores()), np.ones((900, 900), np.float32)
    result = np.empty_like(matrix)

    def count_crowded(products):
        crowded = 0
        for _ in range(products):
            result.fill(np.nan)
            numpy.multiply(matrix, matrix, result)
            assert_product(result, matrix, matrix)
            crowded += numpy.lose_cores
        return crowded

    quiet = count_crowded(30)  # BLAS's threads spin after each
    with burn_cores(2 * CORES):
        until = time.monotonic() + allow(30)
        while not numpy.lose_cores:
            assert time.monotonic() < until, "others have the cores"
            numpy.multiply(matrix, matrix, result)
        assert not numpy.suit(900, 900, 900, matrix.dtype, is_crowded=True), "threads share it"
        assert numpy.suit(100, 100, 100, matrix.dtype, is_crowded=True), "one thread computes it"
    assert quiet < 30


def test_numpy_stops_in_time_for_its_own_threads_to_fall_asleep_and_goes_on_if_others_spin():
    numpy = NumpyProducts(usable_cores())

    def measure_seconds(crowd):
        began = time.monotonic()
        while numpy.bound_spinning("contended") == crowd:
            if crowd == "contended":
                numpy.note_spinning()
            time.sleep(0.001)
        return time.monotonic() - began

    assert numpy.bound_spinning("quiet") == "quiet"
    first, rest, second = map(measure_seconds, ("contended", "crowded", "contended"))
    assert rest > 0.12, "BLAS's threads spin for 0.1 s"
    assert second > 1.5 * first, "others spin"
    time.sleep(0.2)
    assert numpy.bound_spinning("contended") == "contended", "it computed nothing for so long"


SPIN = """
import hashlib, os, sys, threading, time
from pathlib import Path
from wavetrim.cpu.library import CPU_LIBRARY
from wavetrim.native.library import load_library
from wavetrim.native.pool import CROWDS

cores, spinning = map(int, sys.argv[2:])
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
library, content, ended = load_library(CPU_LIBRARY, Path(sys.argv[1])), bytes(1 << 20), []

def spin():
    while not ended:
        hashlib.sha256(content)  # without the interpreter's lock

for _ in range(spinning):
    threading.Thread(target=spin).start()
while CROWDS[library.find_crowd()] != "contended":  # another process may have their cores
    time.sleep(0.01)
ended.append(True)
while CROWDS[library.find_crowd()] == "contended":
    time.sleep(0.01)
print("asleep")
"""


@pytest.mark.parametrize(("cores", "spinning"), [(CORES, 2 * CORES), (1, CORES // 2)])
def test_threads_that_spin_contend_for_the_cores_of_their_process_until_they_sleep(
    tmp_path, kernel_cache, threads, cores, spinning
):
    """As BLAS's do. A process may be bound to few of a machine's cores."""
    ended = run_python(SPIN, kernel_cache, cores, spinning, folder=tmp_path)
    assert (ended.stdout, ended.stderr) == ("asleep\n", "")


PRODUCTS = 64
SIDE = 1024


def time_products(server, matrix):
    """Seconds of 64 products, one after the other."""
    began = time.perf_counter()
    for _ in range(PRODUCTS):
        response = server.multiply(matrix, matrix)
        assert response.status_code == 200, response.text
    return time.perf_counter() - began


def test_beside_busy_cores_products_take_at_most_two_and_a_half_times_as_long(server):
    matrix = np.random.default_rng(1).random((SIDE, SIDE), np.float32)
    time_products(server, matrix)
    quiet, busy = [], []
    for _ in range(3):  # other programs of this machine may compute, too
        quiet.append(time_products(server, matrix))
        with burn_cores(usable_cores()):
            busy.append(time_products(server, matrix))
    assert min(busy) <= 2.5 * min(quiet), f"quiet {quiet}, busy {busy}"
