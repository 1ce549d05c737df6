"""Copies in C between pageable memory and the device keep every element."""

import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from tests.environment import ROOT
from tests.native.c_library import build_library

FOLDER = Path(__file__).parent


def run_check(name, driver_source, folder, *arguments):
    source = shutil.copy(FOLDER / driver_source, folder / "libcuda.c")
    driver = build_library(Path(source)).rename(folder / "libcuda.so.1")
    done = subprocess.run(
        [sys.executable, "-m", f"tests.kernels.transfer.{name}", driver, *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | {"LD_LIBRARY_PATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def test_the_staging_check_passes(tmp_path, kernel_cache):
    run_check("staging_check", "lazy_driver.c", tmp_path, kernel_cache)


def test_products_from_all_kinds_of_memory_are_right_whatever_streams_do_meanwhile(
    tmp_path, kernel_cache
):
    seed = datetime.now(UTC).toordinal()
    run_check("commands_check", "stream_driver.c", tmp_path, kernel_cache, seed)
