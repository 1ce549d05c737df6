"""The native way between host and device keeps every element, and tells of what fails."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.c_library import build_library

TESTS = Path(__file__).parent


def test_pieces_through_slabs_arrive_whole_and_failures_are_told(tmp_path: Path) -> None:
    source = shutil.copy(TESTS / "lazy_driver.c", tmp_path / "libcuda.c")
    library = build_library(Path(source))
    driver = library.rename(tmp_path / "libcuda.so.1")
    done = subprocess.run(
        [sys.executable, "-m", "tests.staging_check", str(driver)],
        cwd=TESTS.parent,
        env=os.environ | {"LD_LIBRARY_PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
