"""C for tests: a library that stands in for a driver, and programs under sanitizers."""

import os
import subprocess

import pytest

from tests.limit import allow
from wavetrim.native.library import FLAGS


def compile_c(target, *arguments):
    """Call the C compiler."""
    command = ["cc", *arguments, "-o", target]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def list_flags(sanitizer):
    """Compiler flags of our C under a sanitizer, such as "thread"."""
    return (*FLAGS, "-g", f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all")


def skip_without(sanitizer, folder):
    """Skip where the compiler has no library of this sanitizer."""
    empty = folder / "empty.c"
    empty.write_text("int main(void) { return 0; }\n")
    try:
        compile_c(folder / "empty", empty, f"-fsanitize={sanitizer}")
    except AssertionError:
        pytest.skip(f"the C compiler has no -fsanitize={sanitizer}")


def run_sanitized(sanitizer, folder, *arguments):
    """Compile a program under a sanitizer into a folder, and run it with the libraries there."""
    program = folder / "program"
    compile_c(program, *list_flags(sanitizer), *arguments)
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
