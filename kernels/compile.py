"""Compiles CUDA source to cubins with NVRTC; needs no GPU.

Each kernel is cached in two files: the cubin, named by its own digest, and a report that names the
cubin. Both are written under a temporary name and renamed, the cubin first, so a process that finds
a report finds a whole cubin. If a cubin does not match its digest (a full or damaged disk), the
kernel is compiled again.
"""

import hashlib
import io
import json
import logging
import os
import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol
from uuid import uuid4

from wavetrim.kernels.errors import CompilationFailed
from wavetrim.native.writable import find_writable

logger = logging.getLogger(__name__)

KERNEL_SOURCES: Final = Path(__file__).parent / "cuda"
"""Folder of the kernels' CUDA sources."""

_IMPORTS: Final = threading.Lock()
"""Locked while cuda-core is imported: another thread may find the module without `Program`."""

_INCLUDE: Final = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
# IEEE arithmetic, as in NumPy: denormals kept, division and square root correctly rounded.
# Multiply-adds are fused, which rounds once instead of twice.
_OPTIONS: Final[dict[str, object]] = {
    "std": "c++17",
    "ftz": False,
    "fma": True,
    "prec_div": True,
    "prec_sqrt": True,
    # NVRTC's own cache is in the home folder, and a cubin from there comes without a report.
    "no_cache": True,
}


class Compilable(Protocol):
    """What is needed to compile and load a kernel or a probe."""

    @property
    def label(self) -> str:
        """Name in messages and reports."""

    @property
    def folder(self) -> Path:
        """Folder of the source and of the files that it includes."""

    @property
    def source(self) -> str | None:
        """File in the folder."""

    @property
    def entries(self) -> tuple[str, ...]:
        """Functions in the source, the main one first."""

    @property
    def macros(self) -> dict[str, str]:
        """Macros to compile the source with."""

    @property
    def keeps_order(self) -> bool:
        """Whether the assembler must keep the order of instructions in the source."""

    @property
    def dynamic_shared_bytes(self) -> int:
        """Dynamic shared memory of a block in bytes."""


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """A cubin on disk, and the compiler's report on it.

    Attributes:
        path: The cubin.
        registers: Registers per thread, the largest of all functions.
        spill_bytes: Bytes of registers spilled to local memory, the largest of all functions.
        shared_bytes: Static shared memory of a block; the spec has the dynamic part.
    """

    path: Path
    registers: int
    spill_bytes: int
    shared_bytes: int


def compile_kernels(specs: Sequence[Compilable], arch: str, cache_dir: Path) -> None:
    """Compile kernels that are not in the cache, as many at a time as there are cores.

    Raises:
        CompilationFailed: One does not compile for `arch`, or NVRTC is not installed.
    """
    # Not at the top: it fails once the main thread has ended, and `compile_kernel` must still work.
    from concurrent.futures import ThreadPoolExecutor

    sources = [spec for spec in specs if spec.source is not None]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        for _ in threads.map(lambda spec: compile_kernel(spec, arch, cache_dir), sources):
            pass


def compile_kernel(spec: Compilable, arch: str, cache_dir: Path) -> CompiledKernel:
    """Compile a kernel, or find it in the cache; safe in several processes at once.

    Args:
        spec: A kernel that has a source.
        arch: Architecture, such as "sm_90a".
        cache_dir: Folder of compiled kernels; created if missing. If it cannot be written, a
            temporary folder of this process is used.

    Raises:
        CompilationFailed: The source does not compile for `arch`, or NVRTC is not installed.
    """
    assert spec.source is not None, "cuBLAS has no source"
    name = f"{_digest_inputs(spec, arch)}.json"
    compiled = _read_report(cache_dir / name)
    if compiled is None:
        cache_dir = find_writable(cache_dir)
        compiled = _read_report(cache_dir / name)
    if compiled is None:
        logger.info("compiling the kernel %s for %s into %s, once", spec.label, arch, cache_dir)
        cubin, log = _run_compiler(spec, arch)
        compiled = _describe(cubin, log, cache_dir)
        cache_dir.mkdir(parents=True, exist_ok=True)
        _write_whole(compiled.path, cubin)
        report = asdict(compiled) | {"path": compiled.path.name, "kernel": spec.label, "arch": arch}
        _write_whole(cache_dir / name, json.dumps(report, indent=1).encode())
    return compiled


@cache
def find_compiler_version() -> str:
    """Version of NVRTC, such as "13.0".

    Raises:
        CompilationFailed: NVRTC is not installed.
    """
    try:
        from cuda.bindings import nvrtc

        status, major, minor = nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError) as error:
        raise CompilationFailed(f"the CUDA compiler NVRTC is not installed: {error}") from error
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS
    return f"{major}.{minor}"


def _digest_inputs(spec: Compilable, arch: str) -> str:
    """A digest of everything that the cubin depends on."""
    assert spec.source is not None, "cuBLAS has no source"
    inputs = {
        "sources": {
            path.name: path.read_text("utf-8") for path in _find_sources(spec.folder, spec.source)
        },
        "macros": spec.macros,
        "options": _OPTIONS,
        "assembler": _list_assembler_options(spec),
        "arch": arch,
        "compiler": find_compiler_version(),
    }
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def _find_sources(folder: Path, name: str) -> Iterator[Path]:
    """A source and all files that it includes, directly or indirectly."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            path = folder / name
            yield path
            waiting += _INCLUDE.findall(path.read_text("utf-8"))


def _run_compiler(spec: Compilable, arch: str) -> tuple[bytes, str]:
    """The cubin, and the compiler's log."""
    find_compiler_version()  # raises a clear error if NVRTC is missing
    with _IMPORTS:
        from cuda.core import Program, ProgramOptions

    assert spec.source is not None, "cuBLAS has no source"
    options: dict[str, Any] = _OPTIONS | {
        "name": spec.source,
        "arch": arch,
        "ptxas_options": _list_assembler_options(spec),
        "define_macro": list(spec.macros.items()) or None,
        "include_path": [str(spec.folder)],
    }
    log = io.StringIO()
    source = (spec.folder / spec.source).read_text("utf-8")
    try:
        program = Program(source, code_type="c++", options=ProgramOptions(**options))
        cubin = program.compile("cubin", logs=log).code
    except Exception as error:  # cuda-core has no public error class
        raise CompilationFailed(f"{spec.label} does not compile for {arch}", str(error)) from error
    return bytes(cubin), log.getvalue()


def _list_assembler_options(spec: Compilable) -> list[str]:
    """-v for the report; -O1 instead of -O3 keeps the order of instructions."""
    return ["-v", "-O1"] if spec.keeps_order else ["-v"]


def _describe(cubin: bytes, log: str, cache_dir: Path) -> CompiledKernel:
    """Parse the assembler's report, which has a line or two for each function."""
    return CompiledKernel(
        path=cache_dir / f"{_digest(cubin)}.cubin",
        registers=_find_most(r"Used (\d+) registers", log),
        spill_bytes=_find_most(r"(\d+) bytes spill", log),
        shared_bytes=_find_most(r"(\d+) bytes smem", log),
    )


def _find_most(pattern: str, log: str) -> int:
    return max((int(number) for number in re.findall(pattern, log)), default=0)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _read_report(path: Path) -> CompiledKernel | None:
    """The cached kernel, if its cubin is undamaged."""
    try:
        report = json.loads(path.read_bytes())
        compiled = CompiledKernel(
            path=path.parent / report["path"],
            registers=report["registers"],
            spill_bytes=report["spill_bytes"],
            shared_bytes=report["shared_bytes"],
        )
        whole = _digest(compiled.path.read_bytes()) == compiled.path.stem
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return compiled if whole else None


def _write_whole(path: Path, data: bytes) -> None:
    """Write a file atomically."""
    # Not by tempfile, which ignores the umask.
    unfinished = path.with_name(f".{uuid4().hex}")
    try:
        with unfinished.open("xb") as file:
            file.write(data)
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
