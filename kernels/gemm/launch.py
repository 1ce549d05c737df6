"""Launches of tiled kernels on the current device and stream, the strict fallback included."""

import ctypes
import threading
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from wavetrim.kernels.catalog import find_kernel
from wavetrim.kernels.compile import Compilable, compile_kernel
from wavetrim.kernels.device import name_arch
from wavetrim.kernels.errors import OperandError
from wavetrim.kernels.gemm.operands import Product
from wavetrim.kernels.gemm.prepared import Command, prepare_kernel
from wavetrim.kernels.spec import KernelSpec
from wavetrim.kernels.tiling import RegisterTiling, WarpTiling

_MOST_BLOCKS: Final = 2**31 - 1  # gridDim.x
_SM_COUNT: Final = 16  # cudaDevAttrMultiProcessorCount
_REALS: Final = {"float32": ctypes.c_float, "float64": ctypes.c_double}


STRICT: Final = find_kernel("register", "float32")
"""The strict float32 kernel, for any operands on any GPU."""

STRICT_LIMITED: Final = replace(
    find_kernel("register", "float32", "256x128x16"),
    tiling=RegisterTiling(16, 8, stages=3, blocks_per_sm=1, persistent=True),
)
"""The same with persistent blocks, one for each multiprocessor."""


_loaded: dict[tuple[Compilable, int, Path], tuple[Any, ...]] = {}
_loading = threading.Lock()


def prepare_tiles(
    spec: KernelSpec,
    product: Product,
    cache_dir: Path,
    *,
    wanted: int | None = None,
    sms: int | None = None,
) -> Command:
    """Prepare a kernel with one block a tile.

    Args:
        spec: The kernel.
        product: The product.
        cache_dir: Folder of compiled kernels.
        wanted: Device address of a 32-bit number; the kernel returns at once if it is 0. Only for
            the register kernel. None to compute always.
        sms: Limit of multiprocessors, for a kernel that `can_limit_sms`: one persistent block on
            each. None for all.

    Raises:
        OperandError: C has more tiles than a grid has blocks.
    """
    if sms is not None:
        spec = make_persistent(spec)
    a, b, c = product.a, product.b, product.c
    tiles = -(-c.rows // spec.tile.m) * -(-c.columns // spec.tile.n)
    blocks = tiles if sms is None else min(tiles, sms)
    if blocks > _MOST_BLOCKS:
        raise OperandError(f"C has {tiles} tiles; {spec.label} computes at most {_MOST_BLOCKS}")
    real = _REALS[spec.dtype]
    values: tuple[Any, ...] = (
        *(ctypes.c_int64(c.rows), ctypes.c_int64(c.columns), ctypes.c_int64(product.k)),
        *(real(product.alpha), ctypes.c_uint64(a.pointer), ctypes.c_int64(a.leading_dimension)),
        *(ctypes.c_uint64(b.pointer), ctypes.c_int64(b.leading_dimension), real(product.beta)),
        *(ctypes.c_uint64(c.pointer), ctypes.c_int64(c.leading_dimension)),
        *((ctypes.c_uint64(wanted or 0),) if spec.name == "register" else ()),
    )
    aligned = a.is_aligned and b.is_aligned and c.is_aligned
    function = load_functions(spec, cache_dir)[0 if aligned else -1]
    shared_bytes = spec.dynamic_shared_bytes
    return prepare_kernel(function, blocks, spec.block, values, shared_bytes=shared_bytes)


def prepare_strict(
    product: Product, cache_dir: Path, *, sms: int | None, wanted: int | None = None
) -> Command:
    """Prepare a product by the strict kernel, which computes what another kernel cannot.

    `wanted` and `sms` are as for `prepare_tiles`.
    """
    spec = STRICT if sms is None else STRICT_LIMITED
    return prepare_tiles(spec, product, cache_dir, sms=sms, wanted=wanted)


@cache
def make_persistent(spec: KernelSpec) -> KernelSpec:
    """The variant of a kernel with persistent blocks, each of which fills a multiprocessor."""
    assert spec.can_limit_sms, "only such kernels can be limited to some multiprocessors"
    if not isinstance(spec.tiling, WarpTiling):
        return spec
    tiling = replace(spec.tiling, persistent=True)
    return replace(spec, tiling=tiling, threads=tiling.count_threads(spec.tile))


def count_sms() -> int:
    """Multiprocessors of the current device."""
    from cupy.cuda import runtime

    return _count_sms(runtime.getDevice())


@cache
def _count_sms(device_index: int) -> int:
    from cupy.cuda import runtime

    return int(runtime.deviceGetAttribute(_SM_COUNT, device_index))


def load_functions(spec: Compilable, cache_dir: Path) -> tuple[Any, ...]:
    """The kernel's functions on the current device; compiled and loaded on first use."""
    from cupy.cuda import runtime

    key = (spec, runtime.getDevice(), cache_dir)
    functions = _loaded.get(key)
    if functions is None:
        with _loading:
            functions = _loaded.get(key) or _load(spec, cache_dir)
            _loaded[key] = functions
    return functions


def _load(spec: Compilable, cache_dir: Path) -> tuple[Any, ...]:
    import cupy

    major, minor = divmod(int(cupy.cuda.Device().compute_capability), 10)
    compiled = compile_kernel(spec, name_arch((major, minor)), cache_dir)
    module = cupy.RawModule(path=str(compiled.path))
    functions = tuple(module.get_function(entry) for entry in spec.entries)
    for function in functions:
        if spec.dynamic_shared_bytes:
            function.max_dynamic_shared_size_bytes = spec.dynamic_shared_bytes
    return functions
