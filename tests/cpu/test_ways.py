"""Without a compiler or a BLAS that can be called, products run in Python, and NumPy widens."""

import logging

import numpy as np
import pytest
import threadpoolctl

from wavetrim.cpu.blas import find_blas
from wavetrim.cpu.gemm import CpuPool
from wavetrim.cpu.halves import widen_halves


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


@pytest.mark.parametrize("is_compiled", [True, False], ids=["c", "numpy"])
@pytest.mark.parametrize("layout", ["rows", "columns", "gaps", "one row"])
def test_half_precision_is_widened_exactly(kernel_cache, layout, *, is_compiled):
    every = np.arange(2 * 2**16 + 3, dtype=np.uint32).astype(np.uint16).view(np.float16)
    halves = every[None] if layout == "one row" else every[: 2**17].reshape(128, 1024)
    if layout == "columns":
        halves = np.asfortranarray(halves)
    if layout == "gaps":
        halves = np.hstack([halves, halves])[:, :1021]
    wide = widen_halves(halves, kernel_cache if is_compiled else None)
    assert wide.dtype == np.float32
    assert np.array_equal(wide, halves.astype(np.float32), equal_nan=True)
