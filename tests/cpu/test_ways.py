"""When threads are in C: from the first large product on, not without BLAS, not in a fork."""

import logging
import os
from pathlib import Path

import numpy as np
import pytest
import threadpoolctl

from tests.processes import run_python
from wavetrim.cpu.blas import find_blas
from wavetrim.cpu.gemm import CpuPool

FORKING = """
import os, sys, warnings
from itertools import pairwise
from pathlib import Path
import numpy as np
from wavetrim.cpu.gemm import CpuPool

warnings.simplefilter("ignore")
pool = CpuPool(3, cache_dir=Path(sys.argv[1]) if sys.argv[1] else None)
a, c = np.ones((500, 400)), np.zeros((500, 500))
pool.multiply(a, a.T, c)
child = os.fork()
c[...] = 0
pool.multiply(a, a.T, c)
pool.close()
assert np.all(c == 400)
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize("in_c", [True, False])
def test_a_forked_process_multiplies_by_itself(kernel_cache: Path, in_c: bool) -> None:
    done = run_python(FORKING, kernel_cache if in_c else "")
    assert done.returncode == 0, done.stderr


def test_threads_in_c_start_with_the_first_product_that_they_can_share(tmp_path: Path) -> None:
    with CpuPool(2, cache_dir=tmp_path / "compiled") as pool:
        pool.multiply(np.ones((9, 8)), np.ones((8, 7)), np.zeros((9, 7)))
        assert not pool.native
        assert not (tmp_path / "compiled").exists()
        pool.multiply(np.ones((900, 300)), np.ones((300, 300)), np.zeros((900, 300)))
        assert pool.native


def test_without_a_compiler_products_run_in_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
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
def test_a_blas_that_cannot_be_called_is_logged(
    change: dict[str, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    entries = [entry | change for entry in threadpoolctl.threadpool_info()]
    monkeypatch.setattr(threadpoolctl, "threadpool_info", lambda: entries)
    with caplog.at_level(logging.WARNING):
        assert find_blas.__wrapped__() is None
    assert "no OpenBLAS that can be called" in caplog.text


def test_threads_in_c_have_the_priority_of_their_process(kernel_cache: Path) -> None:
    with CpuPool(4, cache_dir=kernel_cache) as pool:
        assert pool.prepare()
        pool.multiply(np.ones((900, 300)), np.ones((300, 300)), np.zeros((900, 300)))
        for task in Path("/proc/self/task").iterdir():
            assert os.sched_getscheduler(int(task.name)) == os.SCHED_OTHER
            assert os.getpriority(os.PRIO_PROCESS, int(task.name)) == os.nice(0)
