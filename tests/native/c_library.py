"""C for tests: libraries in place of a driver's or a vendor's, and programs."""

import shutil
import subprocess
from pathlib import Path

import pytest


def build_library(source: Path) -> Path:
    """A shared library beside its source; skips where there is no compiler."""
    library = source.with_suffix(".so")
    compile_c(library, source, "-Wall", "-Werror", "-O1", "-shared", "-fPIC")
    return library


def compile_c(target: Path, *arguments: Path | str) -> None:
    """Call the C compiler; skips where there is none."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler on the PATH")
    command = [compiler, *arguments, "-o", target]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def skip_without_runtime(folder: Path, sanitizer: str) -> None:
    """Skip where the compiler has no library of this sanitizer's."""
    empty = folder / "empty.c"
    empty.write_text("int main(void) { return 0; }\n")
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler on the PATH")
    command = [compiler, f"-fsanitize={sanitizer}", empty, "-o", folder / "empty"]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip(f"the C compiler has no -fsanitize={sanitizer}")
