"""NVIDIA's compute-sanitizer, of the CUDA toolkit, finds nothing in any kernel or probe."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.environment import ROOT, clear_environment
from tests.kernels.specs import SPECS
from tests.processes import execute


def run_compute_sanitizer(tool, program, cache_dir):
    """Run a Python program under a tool that finds nothing; returns what the program prints."""
    sanitizer = shutil.which("compute-sanitizer", path=f"{os.environ['PATH']}:/usr/local/cuda/bin")
    assert sanitizer, "compute-sanitizer, which comes with the CUDA toolkit, is not on the PATH"
    # NVIDIA's bindings ask the driver for functions of newer ones, which is no error of a kernel.
    quiet = ("--report-api-errors", "no") if tool == "memcheck" else ()
    command = [sanitizer, "--tool", tool, "--error-exitcode", "9", *quiet]
    command += [sys.executable, str(program), str(cache_dir)]
    finished = execute(command, env=clear_environment())
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


@pytest.mark.gpu
@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_compute_sanitizer_finds_nothing_in_any_kernel(tool, kernel_cache):
    program = Path(__file__).with_name("sanitizer_driver.py")
    printed = run_compute_sanitizer(tool, program, kernel_cache)
    for spec in SPECS:
        assert (spec.label in printed) == (not spec.is_cublas)


@pytest.mark.gpu
@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_compute_sanitizer_finds_nothing_in_any_probe(tool, kernel_cache):
    program = ROOT / "tests" / "lab" / "sanitizer_probes.py"
    assert "\n34\n" in "\n" + run_compute_sanitizer(tool, program, kernel_cache)
