"""The C library compiles without warnings, and sanitizers find nothing while threads share it."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.native.c_library import compile_c, skip_without_runtime
from wavetrim.kernels.transfer.host_library import HOST_LIBRARY
from wavetrim.native.library import FLAGS

TESTS = Path(__file__).parent


def test_the_library_compiles_without_warnings(tmp_path: Path) -> None:
    flags = (*FLAGS, "-Werror", "-shared", "-fPIC")
    compile_c(tmp_path / "host.so", *flags, *HOST_LIBRARY.sources, *HOST_LIBRARY.links)


@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_threads_that_share_teams_and_stages_pass_the_sanitizer(
    tmp_path: Path, sanitizer: str
) -> None:
    flags = (*FLAGS, "-g", f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all")
    skip_without_runtime(tmp_path, sanitizer)
    driver = tmp_path / "libcuda.so.1"
    named = (*flags, "-fvisibility=default", "-Wl,-soname,libcuda.so.1", "-shared", "-fPIC")
    compile_c(driver, *named, TESTS / "lazy_driver.c")
    program = tmp_path / "race_check"
    sources = (TESTS / "race_check.c", *HOST_LIBRARY.sources)
    compile_c(program, *flags, *sources, driver, *HOST_LIBRARY.links)
    done = subprocess.run(
        [program],
        env=os.environ | {"LD_LIBRARY_PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("this compiler's thread sanitizer does not run on this kernel")
    assert done.returncode == 0, done.stderr
