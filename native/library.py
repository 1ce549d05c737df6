"""C libraries, compiled on first use into the folder of compiled kernels.

`python -m wavetrim.service.libraries` compiles them ahead of time, into their source folders.
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
from ctypes import c_int, c_int64, c_void_p
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

from wavetrim.native.errors import CompilationFailed
from wavetrim.native.tuned import MACROS
from wavetrim.native.writable import find_writable

logger = logging.getLogger(__name__)

FLAGS: Final = (
    *("-std=gnu11", "-O2", "-Wall", "-Wextra", "-fvisibility=hidden", "-pthread"),
    *(f"-D{name}={value}" for name, value in MACROS.items()),
)
_FOLDER: Final = Path(__file__).parent
SHARED_HEADERS: Final = tuple(_FOLDER / f"{name}.h" for name in ("pool", "waiting"))
SHARED_SOURCES: Final = (_FOLDER / "pool.c", _FOLDER / "waiting.c")
"""Sources that every library contains."""

Signatures: TypeAlias = Mapping[str, tuple[type | None, tuple[type, ...]]]
"""Function name → (result type, argument types); the result type is None for `void`."""

_POOL: Final[Signatures] = {
    "open_pool": (c_void_p, (c_int, c_int64, c_int)),
    "close_pool": (None, (c_void_p,)),
    "free_pool": (None, (c_void_p,)),
    "wake_pool": (None, (c_void_p, c_int)),
    "limit_pool": (None, (c_void_p, c_int)),
    "find_crowd": (c_int, ()),
    "share_awake": (None, (c_void_p,)),
}
"""The functions of pool.h and waiting.h, which every library has."""

_SHARED: Final = ("-shared", "-fPIC")
_COMPILERS: Final = ("cc", "gcc", "clang")
_DIGEST_CHARACTERS: Final = 16


@dataclass(frozen=True, slots=True)
class Library:
    """The source of a library.

    Attributes:
        name: Prefix of the compiled file's name.
        folder: Folder of the sources.
        source_names: Files to compile.
        header_names: Headers that they include.
        links: Linker options.
        otherwise: What happens without the library, for the log.
        signatures: Its functions, except those of the pool.
    """

    name: str
    folder: Path
    source_names: tuple[str, ...]
    header_names: tuple[str, ...]
    otherwise: str
    links: tuple[str, ...] = ()
    signatures: Signatures = field(default_factory=dict, hash=False, compare=False)

    @property
    def sources(self) -> tuple[Path, ...]:
        """Files to compile, the shared ones included."""
        return (*(self.folder / name for name in self.source_names), *SHARED_SOURCES)

    @property
    def headers(self) -> tuple[Path, ...]:
        """Headers of this library alone."""
        return tuple(self.folder / name for name in self.header_names)


@cache
def load_library(library: Library, cache_dir: Path | None) -> ctypes.CDLL | None:
    """Load a library and declare its functions; compile it if necessary.

    Args:
        library: The library.
        cache_dir: Folder to compile into; None to load only what is compiled next to its source.

    Returns:
        The library; None if it can be neither found nor compiled. A failed compilation is logged as
        a warning.
    """
    loaded = _find_or_compile(library, cache_dir)
    if loaded is not None:
        for name, (result, arguments) in {**_POOL, **library.signatures}.items():
            function = getattr(loaded, name)
            function.restype, function.argtypes = result, arguments
        loaded.share_awake(ctypes.addressof(_awake))
    return loaded


_awake: Final = c_int()
"""Pool threads of all libraries that do not sleep, counted by C; a forked process has none."""


def _count_from_zero() -> None:
    _awake.value = 0


os.register_at_fork(after_in_child=_count_from_zero)


def _find_or_compile(library: Library, cache_dir: Path | None) -> ctypes.CDLL | None:
    name = name_library(library)
    for folder in (library.folder, cache_dir):
        loaded = _try_load(folder / name) if folder is not None else None
        if loaded is not None:
            return loaded
    if cache_dir is None:
        return None
    try:
        return ctypes.CDLL(str(compile_library(library, find_writable(cache_dir))))
    except (CompilationFailed, OSError) as error:
        logger.warning("%s: %s", library.otherwise, error)
        return None


def compile_library(library: Library, folder: Path) -> Path:
    """Compile a library into a folder and return its file. The file appears there atomically.

    Raises:
        CompilationFailed: There is no C compiler ($CC, cc, gcc or clang), or it refuses the source.
        OSError: The folder cannot be written.
    """
    compiler = _find_compiler()
    if compiler is None:
        raise CompilationFailed(f"no C compiler ({', '.join(_COMPILERS)} or $CC) is on the PATH")
    logger.info("compiling the C of %s into %s, once", library.name, folder)
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
    """File name with a digest of sources, options (with the tuned numbers) and platform."""
    paths = (*SHARED_HEADERS, *library.headers, *library.sources)
    texts = (path.read_text(encoding="utf-8") for path in paths)
    about = "\0".join((*texts, *FLAGS, *_SHARED, *library.links, sysconfig.get_platform()))
    digest = hashlib.sha256(about.encode()).hexdigest()[:_DIGEST_CHARACTERS]
    return f"{library.name}-{digest}.so"


def _find_compiler() -> list[str] | None:
    """The compiler command. $CC may hold arguments, as in "python -m ziglang cc"."""
    named = os.environ.get("CC")
    try:
        commands = [shlex.split(named)] if named else [[name] for name in _COMPILERS]
    except ValueError as error:
        raise CompilationFailed(f"$CC is {named!r}: {error}") from error
    return next((command for command in commands if command and shutil.which(command[0])), None)


def _try_load(path: Path) -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(str(path)) if path.is_file() else None
    except OSError as error:  # compiled for another machine, damaged, or in a closed folder
        logger.warning("%s cannot be loaded: %s", path, error)
        return None
