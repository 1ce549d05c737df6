"""NVIDIA's compute-sanitizer, which comes with the CUDA toolkit."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.environment import clear_environment


def run_compute_sanitizer(tool: str, program: Path, cache_dir: Path) -> str:
    """Run a Python program under a tool that finds nothing; returns what the program prints."""
    sanitizer = shutil.which("compute-sanitizer", path=f"{os.environ['PATH']}:/usr/local/cuda/bin")
    assert sanitizer, "compute-sanitizer, which comes with the CUDA toolkit, is not on the PATH"
    # NVIDIA's bindings ask the driver for functions of newer ones, which is no error of a kernel.
    quiet = ("--report-api-errors", "no") if tool == "memcheck" else ()
    finished = subprocess.run(
        [
            *(sanitizer, "--tool", tool, "--error-exitcode", "9", *quiet),
            *(sys.executable, str(program), str(cache_dir)),
        ],
        env=clear_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout
