"""Copies in C between pageable memory and the device keep every element."""

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from tests.environment import ROOT
from tests.limit import allow
from tests.processes import compile_c

FOLDER = Path(__file__).parent


def run_check(name, folder, *arguments):
    driver = folder / "libcuda.so.1"
    compile_c(driver, FOLDER / "driver.c", "-Wall", "-Werror", "-O1", "-shared", "-fPIC")
    done = subprocess.run(
        [sys.executable, "-m", f"tests.kernels.transfer.{name}", driver, *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | {"LD_LIBRARY_PATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=allow(120),
    )
    assert done.returncode == 0, done.stderr


def test_the_staging_check_passes(tmp_path, kernel_cache):
    run_check("staging_check", tmp_path, kernel_cache)


def test_products_from_all_kinds_of_memory_are_right_whatever_streams_do_meanwhile(
    tmp_path, kernel_cache
):
    seed = datetime.now(UTC).toordinal()
    run_check("commands_check", tmp_path, kernel_cache, seed)
