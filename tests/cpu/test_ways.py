"""When threads are in C: from the first large product on, not without BLAS, not in a fork."""

import logging

import numpy as np
import pytest
import threadpoolctl

from wavetrim.cpu.blas import find_blas
from wavetrim.cpu.gemm import CpuPool


def test_threads_in_c_start_with_the_first_product_that_they_can_share(kernel_cache):
    with CpuPool(2, cache_dir=kernel_cache) as pool:
        pool.multiply(np.ones((9, 8)), np.ones((8, 7)), np.zeros((9, 7)))
        assert not pool.native
        pool.multiply(np.ones((900, 300)), np.ones((300, 300)), np.zeros((900, 300)))
        assert pool.native


def test_without_a_compiler_products_run_in_python(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("CC", str(tmp_path / "no-such-compiler"))
    with caplog.at_level(logging.WARNING), CpuPool(2, cache_dir=tmp_path / "empty") as pool:
        if pool.prepare():  # next to its source is a library compiled before
            pytest.skip("the library is compiled next to its source")
        c = np.zeros((300, 300))
        pool.multiply(np.ones((300, 40)), np.ones((40, 300)), c)
    assert np.all(c == 40)
    assert caplog.text.count("products on the CPU run in Python threads") == 1


@pytest.mark.parametrize(
    "change",
    [{"internal_api": "mkl"}, {"threading_layer": "openmp"}, {"filepath": "/no/such/library.so"}],
)
def test_a_blas_that_cannot_be_called_is_logged(change, monkeypatch, caplog):
    entries = [entry | change for entry in threadpoolctl.threadpool_info()]
    monkeypatch.setattr(threadpoolctl, "threadpool_info", lambda: entries)
    with caplog.at_level(logging.WARNING):
        assert find_blas.__wrapped__() is None
    assert "no OpenBLAS that can be called" in caplog.text
