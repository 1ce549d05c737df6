"""The C library of kernels/native/, compiled on the machine that it runs on.

Like kernels for the GPU it is compiled when it is first needed, and kept: beside its source if
`python -m kernels.host_library` put it there, else in the folder of compiled kernels.
"""

import ctypes
import hashlib
import logging
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

from kernels.errors import CompilationFailed

logger = logging.getLogger(__name__)

_FOLDER: Final = Path(__file__).parent / "native"
SOURCES: Final = tuple(_FOLDER / name for name in ("copies.c", "driver.c", "ways.c", "stage.c"))
_HEADERS: Final = tuple(_FOLDER / name for name in ("copies.h", "driver.h", "ways.h"))
FLAGS: Final = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-fvisibility=hidden", "-pthread")
_SHARED: Final = ("-shared", "-fPIC")
LIBRARIES: Final = ("-ldl",)
_COMPILERS: Final = ("cc", "gcc", "clang")
_DIGEST_CHARACTERS: Final = 16


@cache
def load_library(cache_dir: Path) -> ctypes.CDLL | None:
    """The library; None, after a warning, on a machine that cannot have it.

    Args:
        cache_dir: Folder to compile into where it is not there yet.
    """
    name = name_library()
    for folder in (_FOLDER, cache_dir):
        library = _try_load(folder / name)
        if library is not None:
            return library
    try:
        return ctypes.CDLL(str(compile_library(cache_dir)))
    except (CompilationFailed, OSError) as error:
        logger.warning("copies run in Python threads, which is slower: %s", error)
        return None


def compile_library(folder: Path) -> Path:
    """Compile into a folder; returns the file, which appears there whole.

    Raises:
        CompilationFailed: There is no C compiler ($CC, cc, gcc or clang), or it refuses the source.
        OSError: The folder cannot be written.
    """
    compiler = _find_compiler()
    if compiler is None:
        raise CompilationFailed(f"no C compiler ({', '.join(_COMPILERS)} or $CC) is on the PATH")
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / name_library()
    with tempfile.TemporaryDirectory(dir=folder, prefix=".compiling-") as scratch:
        fresh = Path(scratch) / target.name
        command = [*compiler, *FLAGS, *_SHARED, "-o", str(fresh), *map(str, SOURCES), *LIBRARIES]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CompilationFailed(f"{' '.join(command)} failed:\n{done.stderr}")
        fresh.replace(target)
    return target


@cache
def name_library() -> str:
    """File name: what was compiled, how, and for which platform."""
    texts = (path.read_text(encoding="utf-8") for path in (*_HEADERS, *SOURCES))
    about = "\0".join((*texts, *FLAGS, *_SHARED, *LIBRARIES, sysconfig.get_platform()))
    digest = hashlib.sha256(about.encode()).hexdigest()[:_DIGEST_CHARACTERS]
    return f"host-{digest}.so"


def _find_compiler() -> list[str] | None:
    """The command, which may have arguments: "python -m ziglang cc" is a compiler, too."""
    named = os.environ.get("CC")
    commands = (shlex.split(named),) if named else ([name] for name in _COMPILERS)
    return next((command for command in commands if shutil.which(command[0])), None)


def _try_load(path: Path) -> ctypes.CDLL | None:
    if not path.is_file():
        return None
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:  # made for another machine, or damaged
        logger.warning("%s cannot be loaded: %s", path, error)
        return None


if __name__ == "__main__":
    try:
        print(compile_library(_FOLDER))
    except (CompilationFailed, OSError) as failure:
        sys.exit(str(failure))
