"""The benchmark of kernels: who takes part, for how long, and what is made of it."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.kernels.contest import (
    LEAST_TURNS,
)
from benchmarks.kernels.rows import read_kernel_results
from tests.environment import ROOT
from tests.limit import allow
from wavetrim.kernels.catalog import find_kernel

BULK, CUBLAS = (find_kernel(name, "float32") for name in ("bulk", "cublas"))


@pytest.mark.gpu
def test_a_run_writes_rows_of_kernels_beside_cublas(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.kernels", "--shapes", "512x512x512", "--out", tmp_path],
        cwd=ROOT, capture_output=True, text=True, timeout=allow(200), check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    (results,) = read_kernel_results(tmp_path)
    assert results.document["left_out"] == []
    assert {"naive", "register", "cublas"} <= {row.kernel for row in results.rows}
    assert all(row.tflops > 0 and row.turns >= LEAST_TURNS for row in results.rows)
