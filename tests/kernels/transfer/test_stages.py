"""Copies in C between pageable memory and the device keep every element."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.environment import ROOT
from tests.native.c_library import build_library

FOLDER = Path(__file__).parent


def test_the_staging_check_passes(tmp_path, kernel_cache):
    source = shutil.copy(FOLDER / "lazy_driver.c", tmp_path / "libcuda.c")
    library = build_library(Path(source))
    driver = library.rename(tmp_path / "libcuda.so.1")
    done = subprocess.run(
        [sys.executable, "-m", "tests.kernels.transfer.staging_check", driver, kernel_cache],
        cwd=ROOT,
        env=os.environ | {"LD_LIBRARY_PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
