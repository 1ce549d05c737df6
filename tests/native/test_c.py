"""The C of both libraries compiles without warnings, and passes the sanitizers."""

import platform
import subprocess

import pytest

from tests.environment import ROOT
from tests.native.sanitizers import SANITIZERS, list_flags, run_program
from tests.processes import compile_c
from wavetrim.cpu.library import CPU_LIBRARY
from wavetrim.kernels.transfer.host_library import HOST_LIBRARY
from wavetrim.native.library import FLAGS, SHARED_SOURCES

with_libraries = pytest.mark.parametrize(
    "library", [CPU_LIBRARY, HOST_LIBRARY], ids=lambda library: library.name
)


@with_libraries
def test_a_library_names_every_source_in_its_folder(library):
    named = {*library.sources, *library.headers} - {*SHARED_SOURCES}
    assert named == {*library.folder.glob("*.[ch]")}


@pytest.mark.needs("cc")
@with_libraries
def test_a_library_compiles_without_warnings(tmp_path, library):
    flags = (*FLAGS, "-Werror", "-shared", "-fPIC")
    compile_c(tmp_path / "library.so", *flags, *library.sources, *library.links)


@pytest.mark.timeout(900)  # the thread sanitizer takes ten times as long
@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_products_of_callers_that_share_a_pool_pass_the_sanitizer(tmp_path, sanitizer):
    """Copies do so in kernels/transfer."""
    how = ("-p", "no:cacheprovider", "--capture=no", f"--basetemp={tmp_path / 'tests'}")
    tests = ("-k", "not Python", "tests/cpu/test_reports.py")
    run_program(sanitizer, tmp_path, "-m", "pytest", *how, *tests)


@pytest.mark.needs("cc")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86-64 has tiles")
def test_emulated_tiles_multiply_parts_of_any_size_and_layout(tmp_path):
    flags = (*FLAGS, *list_flags("address,undefined"))
    compile_c(tmp_path / "program", *flags, ROOT / "tests" / "cpu" / "tiles_check.c", "-lm")
    subprocess.run([tmp_path / "program"], check=True)
