"""The C of products compiles without warnings, and sanitizers find nothing in its threads."""

import platform
import subprocess
from pathlib import Path

import pytest

from tests.native.c_library import compile_c, skip_without_runtime
from wavetrim.cpu.library import CPU_LIBRARY
from wavetrim.native.library import FLAGS, SHARED_SOURCES

TESTS = Path(__file__).parent


def test_the_library_compiles_without_warnings(tmp_path: Path) -> None:
    flags = (*FLAGS, "-Werror", "-shared", "-fPIC")
    compile_c(tmp_path / "cpu.so", *flags, *CPU_LIBRARY.sources)


@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_callers_that_share_a_pool_pass_the_sanitizer(tmp_path: Path, sanitizer: str) -> None:
    flags = (*FLAGS, "-g", f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all")
    skip_without_runtime(tmp_path, sanitizer)
    program = tmp_path / "calls_check"
    compile_c(program, *flags, TESTS / "calls_check.c", *CPU_LIBRARY.sources)
    done = subprocess.run([program], capture_output=True, text=True, check=False, timeout=120)
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("this compiler's thread sanitizer does not run on this kernel")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("sanitizer", ["address,undefined"])
def test_tiles_multiply_parts_of_any_size_and_layout(tmp_path: Path, sanitizer: str) -> None:
    """Emulated: a machine need not have them."""
    if platform.machine() != "x86_64":
        pytest.skip("only x86-64 has tiles")
    flags = (*FLAGS, "-g", f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all")
    skip_without_runtime(tmp_path, sanitizer)
    program = tmp_path / "tiles_check"
    compile_c(program, *flags, TESTS / "tiles_check.c", "-lm")
    done = subprocess.run([program], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


def test_the_sources_are_all_that_lies_in_their_folder() -> None:
    named = {*CPU_LIBRARY.sources, *CPU_LIBRARY.headers} - {*SHARED_SOURCES}
    assert named == {*CPU_LIBRARY.folder.glob("*.[ch]")}
