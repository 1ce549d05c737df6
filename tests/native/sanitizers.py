"""Python programs whose C runs under the compiler's sanitizers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.environment import ROOT
from tests.limit import allow
from tests.processes import execute

_RUNTIMES = {"thread": "libtsan.so", "address,undefined": "libasan.so"}
SANITIZERS = [pytest.param(name, marks=pytest.mark.needs("cc")) for name in _RUNTIMES]


def list_flags(sanitizer):
    """Compiler flags of C under a sanitizer; none without one."""
    return f"-g -fsanitize={sanitizer} -fno-sanitize-recover=all".split() if sanitizer else []


def run_program(sanitizer, folder, *arguments):
    """Run Python that finds libraries in a folder, and compiles its own under a sanitizer, if any.

    The folder is also that of what it compiles. BLAS, which is not compiled so, has one thread; and
    what Python itself leaks is no fault.
    """
    variables = {"LD_LIBRARY_PATH": str(folder), "OPENBLAS_NUM_THREADS": "1"}
    if sanitizer:
        variables |= {
            "LD_PRELOAD": _find_runtime(sanitizer),
            "CC": " ".join(["cc", *list_flags(sanitizer)]),
            "TSAN_OPTIONS": "halt_on_error=1",
            "ASAN_OPTIONS": "detect_leaks=0",
        }
    command = [sys.executable, *map(str, arguments)]
    done = execute(command, cwd=ROOT, env=os.environ | variables, timeout=allow(250))
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("this compiler's thread sanitizer does not run on this kernel")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-8000:]
    assert not sanitizer or list(folder.rglob("*-*.so")), "one next to its source was loaded"


def _find_runtime(sanitizer):
    """The sanitizer's library, which must be there before any other; skips where there is none."""
    asked = ["cc", f"-print-file-name={_RUNTIMES[sanitizer]}"]
    found = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    if not Path(found).is_absolute():
        pytest.skip(f"the C compiler has no -fsanitize={sanitizer}")
    return found
