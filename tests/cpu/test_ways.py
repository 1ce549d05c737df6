"""Without a compiler or a BLAS that can be called, products run in Python."""

import logging

import numpy as np
import pytest
import threadpoolctl

from wavetrim.cpu.blas import find_blas
from wavetrim.cpu.gemm import CpuPool


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
