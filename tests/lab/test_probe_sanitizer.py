import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.environment import clear_environment


@pytest.mark.gpu
@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_compute_sanitizer_finds_nothing_in_the_probes(tool: str, kernel_cache: Path) -> None:
    sanitizer = shutil.which("compute-sanitizer", path=f"{os.environ['PATH']}:/usr/local/cuda/bin")
    assert sanitizer, "compute-sanitizer, which comes with the CUDA toolkit, is not on the PATH"
    # NVIDIA's bindings ask the driver for functions of newer ones, which is no error of a kernel.
    quiet = ("--report-api-errors", "no") if tool == "memcheck" else ()
    driver = (
        sys.executable,
        str(Path(__file__).with_name("sanitizer_probes.py")),
        str(kernel_cache),
    )
    finished = subprocess.run(
        [sanitizer, "--tool", tool, "--error-exitcode", "9", *quiet, *driver],
        env=clear_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "\n34\n" in "\n" + finished.stdout
