import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.environment import clear_environment
from wavetrim.kernels.catalog import list_kernels
from wavetrim.kernels.device import list_devices


@pytest.mark.gpu
@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_compute_sanitizer_finds_nothing(tool: str, kernel_cache: Path) -> None:
    sanitizer = shutil.which("compute-sanitizer", path=f"{os.environ['PATH']}:/usr/local/cuda/bin")
    assert sanitizer, "compute-sanitizer, which comes with the CUDA toolkit, is not on the PATH"
    driver = (
        sys.executable,
        str(Path(__file__).with_name("sanitizer_driver.py")),
        str(kernel_cache),
    )
    # NVIDIA's bindings ask the driver for functions of newer ones, which is no error of a kernel.
    options = ("--tool", tool, "--error-exitcode", "9")
    quiet = ("--report-api-errors", "no") if tool == "memcheck" else ()
    finished = subprocess.run(
        [sanitizer, *options, *quiet, *driver],
        env=clear_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    capability = list_devices()[0].compute_capability
    for spec in list_kernels(compute_capability=capability):
        assert (spec.label in finished.stdout) == (spec.source is not None)
