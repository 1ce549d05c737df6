"""C libraries in place of a driver's or a vendor's, built for the test that calls them."""

import shutil
import subprocess
from pathlib import Path

import pytest


def build_library(source: Path) -> Path:
    """A shared library beside its source; skips where there is no compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler on the PATH")
    library = source.with_suffix(".so")
    flags = ("-Wall", "-Werror", "-O1", "-shared", "-fPIC")
    subprocess.run([compiler, *flags, "-o", library, source], check=True)
    return library
