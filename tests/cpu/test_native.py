"""The C of products compiles without warnings, and passes the sanitizers."""

import platform
from pathlib import Path

import pytest

from tests.native.c_library import compile_c, run_sanitized, skip_without
from wavetrim.cpu.library import CPU_LIBRARY
from wavetrim.native.library import FLAGS, SHARED_SOURCES

TESTS = Path(__file__).parent


@pytest.mark.needs("cc")
def test_the_library_compiles_without_warnings(tmp_path):
    flags = (*FLAGS, "-Werror", "-shared", "-fPIC")
    compile_c(tmp_path / "cpu.so", *flags, *CPU_LIBRARY.sources)


@pytest.mark.needs("cc")
@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_callers_that_share_a_pool_pass_the_sanitizer(tmp_path, sanitizer):
    skip_without(sanitizer, tmp_path)
    run_sanitized(sanitizer, tmp_path, TESTS / "calls_check.c", *CPU_LIBRARY.sources)


@pytest.mark.needs("cc")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86-64 has tiles")
def test_emulated_tiles_multiply_parts_of_any_size_and_layout(tmp_path):
    skip_without("address,undefined", tmp_path)
    run_sanitized("address,undefined", tmp_path, TESTS / "tiles_check.c", "-lm")


def test_the_library_names_every_source_in_its_folder():
    named = {*CPU_LIBRARY.sources, *CPU_LIBRARY.headers} - {*SHARED_SOURCES}
    assert named == {*CPU_LIBRARY.folder.glob("*.[ch]")}
