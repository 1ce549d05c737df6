"""Products on the CPU while other threads want its cores."""

import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from benchmarks.host.busy.conditions import burn_cores
from tests.limit import allow
from tests.matrices import assert_product
from wavetrim.cpu.gemm import CpuPool
from wavetrim.cpu.threads import CoreUsers

pytestmark = [pytest.mark.serial, pytest.mark.slow]

CORES = len(os.sched_getaffinity(0))


@pytest.mark.parametrize("lends_blas", [False, True])
def test_beside_other_processes_a_pool_is_crowded_until_they_have_ended(
    kernel_cache: Path, lends_blas: bool
) -> None:
    a, b = np.random.default_rng(1).random((2, 600, 600))
    c = np.empty_like(a)
    with CpuPool(CORES, cache_dir=kernel_cache, lends_blas=lends_blas) as pool:

        def multiply_until(crowded: bool) -> None:
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


def test_threads_of_this_process_that_spin_are_told_from_other_processes() -> None:
    users, matrix = CoreUsers(CORES), np.ones((900, 900), np.float32)

    def watch_products() -> None:
        for _ in range(20):
            with users.watch():
                np.matmul(matrix, matrix)

    watch_products()
    is_quiet = users.are_ours
    with burn_cores(2 * CORES):
        watch_products()
    assert not users.are_ours
    ending = threading.Event()
    spinners = [
        threading.Thread(target=spin, args=(matrix, ending), daemon=True) for _ in range(CORES)
    ]
    for spinner in spinners:
        spinner.start()
    watch_products()
    ending.set()
    for spinner in spinners:
        spinner.join()
    assert users.are_ours or not is_quiet, "the machine was quiet, and its cores were ours"


def spin(matrix: np.ndarray, ending: threading.Event) -> None:
    while not ending.is_set():
        np.matmul(matrix, matrix)
