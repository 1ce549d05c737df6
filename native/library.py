"""C libraries, compiled on the machine that they run on.

Like kernels for the GPU a library is compiled when it is first needed, and kept: beside its source
if `python -m wavetrim.service.libraries` put it there, else in the folder of compiled kernels.
"""

import ctypes
import hashlib
import logging
import os
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

from wavetrim.native.errors import CompilationFailed

logger = logging.getLogger(__name__)

FLAGS: Final = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-fvisibility=hidden", "-pthread")
_FOLDER: Final = Path(__file__).parent
SHARED_HEADERS: Final = (_FOLDER / "pool.h", _FOLDER / "waiting.h")
SHARED_SOURCES: Final = (_FOLDER / "pool.c", _FOLDER / "waiting.c")
"""Files that belong to every library."""

Signatures: TypeAlias = Mapping[str, tuple[type | None, tuple[type, ...]]]
"""By function: what it returns, None for nothing, and what it takes."""

_SHARED: Final = ("-shared", "-fPIC")
_COMPILERS: Final = ("cc", "gcc", "clang")
_DIGEST_CHARACTERS: Final = 16


@dataclass(frozen=True, slots=True)
class Library:
    """A library as its source describes it.

    Attributes:
        name: What its file's name begins with.
        folder: Where its source lies.
        source_names: Files that are compiled.
        header_names: Files that these include.
        links: Options for the linker.
        otherwise: What happens without it, for the log.
    """

    name: str
    folder: Path
    source_names: tuple[str, ...]
    header_names: tuple[str, ...]
    otherwise: str
    links: tuple[str, ...] = ()

    @property
    def sources(self) -> tuple[Path, ...]:
        """The files that are compiled."""
        return (*(self.folder / name for name in self.source_names), *SHARED_SOURCES)

    @property
    def headers(self) -> tuple[Path, ...]:
        """The files that these include."""
        return tuple(self.folder / name for name in self.header_names)


@cache
def load_library(library: Library, cache_dir: Path | None) -> ctypes.CDLL | None:
    """The library; None, after a warning, on a machine that cannot have it.

    Args:
        library: Which one.
        cache_dir: Folder to compile into where it is not there yet; None to do without it then.
    """
    name = name_library(library)
    for folder in (library.folder, cache_dir):
        loaded = _try_load(folder / name) if folder is not None else None
        if loaded is not None:
            return loaded
    if cache_dir is None:
        return None
    try:
        return ctypes.CDLL(str(compile_library(library, cache_dir)))
    except (CompilationFailed, OSError) as error:
        logger.warning("%s: %s", library.otherwise, error)
        return None


def declare_functions(library: ctypes.CDLL, signatures: Signatures) -> None:
    """Say what functions of a library return and take."""
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments


def compile_library(library: Library, folder: Path) -> Path:
    """Compile into a folder; returns the file, which appears there whole.

    Raises:
        CompilationFailed: There is no C compiler ($CC, cc, gcc or clang), or it refuses the source.
        OSError: The folder cannot be written.
    """
    compiler = _find_compiler()
    if compiler is None:
        raise CompilationFailed(f"no C compiler ({', '.join(_COMPILERS)} or $CC) is on the PATH")
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / name_library(library)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".compiling-") as scratch:
        fresh = Path(scratch) / target.name
        sources = map(str, library.sources)
        command = [*compiler, *FLAGS, *_SHARED, "-o", str(fresh), *sources, *library.links]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CompilationFailed(f"{' '.join(command)} failed:\n{done.stderr}")
        fresh.replace(target)
    return target


@cache
def name_library(library: Library) -> str:
    """File name: what was compiled, how, and for which platform."""
    paths = (*SHARED_HEADERS, *library.headers, *library.sources)
    texts = (path.read_text(encoding="utf-8") for path in paths)
    about = "\0".join((*texts, *FLAGS, *_SHARED, *library.links, sysconfig.get_platform()))
    digest = hashlib.sha256(about.encode()).hexdigest()[:_DIGEST_CHARACTERS]
    return f"{library.name}-{digest}.so"


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
