"""The benchmark of kernels: who takes part, for how long, and what is made of it."""

import pytest

from benchmarks.kernels.contest import LEAST_TURNS
from benchmarks.kernels.rows import read_kernel_results
from tests.processes import run_benchmark


@pytest.mark.gpu
def test_a_run_writes_rows_of_kernels_beside_cublas(tmp_path):
    run_benchmark("kernels", tmp_path, "--shapes", "512x512x512")
    (results,) = read_kernel_results(tmp_path)
    assert results.document["left_out"] == []
    assert {"naive", "register", "cublas"} <= {row.kernel for row in results.rows}
    assert all(row.tflops > 0 and row.turns >= LEAST_TURNS for row in results.rows)
