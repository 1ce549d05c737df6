"""The C of both libraries compiles without warnings, and passes the sanitizers."""

import os
import platform
import subprocess

import pytest

from tests.environment import ROOT
from tests.limit import allow
from tests.processes import compile_c
from wavetrim.cpu.library import CPU_LIBRARY
from wavetrim.kernels.transfer.host_library import HOST_LIBRARY
from wavetrim.native.library import FLAGS, SHARED_SOURCES

CPU_CHECKS, HOST_CHECKS = ROOT / "tests" / "cpu", ROOT / "tests" / "kernels" / "transfer"
SANITIZERS = ("thread", "address,undefined")
DRIVER = "libcuda.so.1"
"""What stands in for CUDA's driver."""

with_libraries = pytest.mark.parametrize(
    "library", [CPU_LIBRARY, HOST_LIBRARY], ids=lambda library: library.name
)


def run_sanitized(sanitizer, folder, *arguments, driver=None):
    """Compile a program under a sanitizer, and run it; skips where there is no such sanitizer."""
    flags = (*FLAGS, "-g", f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all")
    empty, program, links = folder / "empty.c", folder / "program", ()
    empty.write_text("int main(void) { return 0; }\n")
    try:
        compile_c(folder / "empty", empty, f"-fsanitize={sanitizer}")
    except AssertionError:
        pytest.skip(f"the C compiler has no -fsanitize={sanitizer}")
    if driver is not None:
        links = (folder / DRIVER,)
        named = ("-fvisibility=default", f"-Wl,-soname,{DRIVER}", "-shared", "-fPIC")
        compile_c(*links, *flags, *named, driver)
    compile_c(program, *flags, *arguments, *links)
    done = subprocess.run(
        [program],
        env=os.environ | {"LD_LIBRARY_PATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=allow(120),
        check=False,
    )
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("this compiler's thread sanitizer does not run on this kernel")
    assert done.returncode == 0, done.stderr


@with_libraries
def test_a_library_names_every_source_in_its_folder(library):
    named = {*library.sources, *library.headers} - {*SHARED_SOURCES}
    assert named == {*library.folder.glob("*.[ch]")}


@pytest.mark.needs("cc")
@with_libraries
def test_a_library_compiles_without_warnings(tmp_path, library):
    flags = (*FLAGS, "-Werror", "-shared", "-fPIC")
    compile_c(tmp_path / "library.so", *flags, *library.sources, *library.links)


@pytest.mark.needs("cc")
@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_products_of_callers_that_share_a_pool_pass_the_sanitizer(tmp_path, sanitizer):
    run_sanitized(sanitizer, tmp_path, CPU_CHECKS / "calls_check.c", *CPU_LIBRARY.sources)


@pytest.mark.needs("cc")
@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_copies_of_stages_that_share_a_pool_pass_the_sanitizer(tmp_path, sanitizer):
    sources = (HOST_CHECKS / "race_check.c", *HOST_LIBRARY.sources, *HOST_LIBRARY.links)
    run_sanitized(sanitizer, tmp_path, *sources, driver=HOST_CHECKS / "driver.c")


@pytest.mark.needs("cc")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86-64 has tiles")
def test_emulated_tiles_multiply_parts_of_any_size_and_layout(tmp_path):
    run_sanitized(SANITIZERS[1], tmp_path, CPU_CHECKS / "tiles_check.c", "-lm")
