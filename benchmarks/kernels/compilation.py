"""All kernels, compiled at once on all cores.

Not in `__main__`: a process that is spawned does not import that module, so it would find nothing
of it.
"""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from wavetrim.kernels.compile import CompiledKernel, compile_kernel
from wavetrim.kernels.errors import CompilationFailed
from wavetrim.kernels.spec import KernelSpec


def compile_all(
    specs: Sequence[KernelSpec], arch: str, cache_dir: Path
) -> list[tuple[KernelSpec, CompiledKernel]]:
    """Compile on all cores, so that the GPU does not wait; kernels that fail are left out."""
    sources = [spec for spec in specs if spec.source]
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        found = pool.map(try_compile, sources, repeat(arch), repeat(cache_dir))
        return [(spec, x) for spec, x in zip(sources, found, strict=True) if x is not None]


def try_compile(spec: KernelSpec, arch: str, cache_dir: Path) -> CompiledKernel | None:
    """The compiled kernel; None, and a line about it, if it does not compile."""
    try:
        return compile_kernel(spec, arch, cache_dir)
    except CompilationFailed as error:
        print(f"left out: {spec.label}: {error}", flush=True)
        return None


def describe_compiled(spec: KernelSpec, compiled: CompiledKernel, arch: str) -> dict[str, Any]:
    """The compiler's report of a kernel."""
    return {
        "kernel": spec.name,
        "tile": str(spec.tile),
        "dtype": spec.dtype,
        "arch": arch,
        "threads": spec.threads,
        "registers": compiled.registers,
        "spill_bytes": compiled.spill_bytes,
        "shared_bytes": spec.shared_bytes,
    }
