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
