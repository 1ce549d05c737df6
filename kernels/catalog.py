"""The catalog of kernels.

Imports neither NumPy nor CuPy: the planner reads it on machines without a GPU.
"""

from collections.abc import Iterable
from functools import lru_cache, partial
from typing import Any, Final

from wavetrim.kernels.errors import UnknownKernel
from wavetrim.kernels.spec import KernelSpec
from wavetrim.kernels.tiling import (
    BulkTiling,
    ClusterTiling,
    RegisterTiling,
    TermTiling,
    Tile,
    Tiling,
    WarpTiling,
)

_HOPPER: Final = (9, 0)


def _textbook(name: str, dtype: str, w: int) -> KernelSpec:
    return KernelSpec(
        name, dtype, Tile(w, w, w), threads=w * w, source=f"{name}.cu", automatic=False
    )


def _tiled(
    name: str, dtype: str, tile: Tile, tiling: Tiling, *, source: str | None = None, **others: Any
) -> KernelSpec:
    threads = tiling.count_threads(tile)
    return KernelSpec(name, dtype, tile, threads, source or f"{name}.cu", tiling=tiling, **others)


_register_float32 = partial(_tiled, "register", "float32", keeps_order=True)
_register_float64 = partial(_tiled, "register", "float64")
_bulk = partial(
    _tiled,
    "bulk",
    "float32",
    keeps_order=True,
    min_compute_capability=_HOPPER,
    max_compute_capability=_HOPPER,  # setmaxnreg needs sm_90a
)
_tensor_float32 = partial(
    _tiled,
    "tensor",
    "float32",
    accuracy="float32",
    min_compute_capability=_HOPPER,
    max_compute_capability=_HOPPER,  # no other GPU has wgmma
)
_tensor_float64 = partial(
    _tiled,
    "tensor",
    "float64",
    source="tensor_float64.cu",
    accuracy="float64",
    min_compute_capability=_HOPPER,
)
_tensor_half = partial(
    _tiled,
    "tensor",
    source="tensor_half.cu",
    accuracy="library",
    min_compute_capability=_HOPPER,
    max_compute_capability=_HOPPER,  # no other GPU has wgmma
)


def _cublas(dtype: str, tile: Tile, threads: int, **others: Any) -> KernelSpec:
    return KernelSpec("cublas", dtype, tile, threads, source=None, accuracy="library", **others)


# The first entry of each name and element type is its default tile.
_CATALOG: Final[tuple[KernelSpec, ...]] = (
    *(
        _textbook(name, dtype, w)
        for name in ("naive", "simple", "coalesced", "shared")
        for dtype in ("float32", "float64")
        for w in (32, 16, 8, 4)
    ),
    _register_float32(Tile(64, 128, 16), RegisterTiling(8, 8, stages=3, blocks_per_sm=3)),
    _register_float32(
        Tile(256, 128, 16),
        RegisterTiling(16, 8, stages=3, blocks_per_sm=1),
        min_compute_capability=(8, 0),
    ),
    _register_float32(
        Tile(64, 64, 16), RegisterTiling(8, 8, stages=3, blocks_per_sm=6), automatic=False
    ),
    _register_float64(Tile(128, 128, 8), RegisterTiling(8, 8, stages=3, blocks_per_sm=1)),
    _register_float64(
        Tile(64, 128, 8), RegisterTiling(8, 8, stages=3, blocks_per_sm=2), automatic=False
    ),
    _register_float64(
        Tile(64, 64, 8), RegisterTiling(8, 8, stages=3, blocks_per_sm=4), automatic=False
    ),
    _bulk(Tile(128, 256, 16), BulkTiling(8, 16, stages=6, registers=232)),
    _bulk(Tile(128, 128, 16), BulkTiling(8, 8, stages=6, registers=240)),
    _tensor_float32(Tile(128, 128, 32), TermTiling(stages=3, chain=2, flush=16, term_blocks=3)),
    _tensor_float64(
        Tile(128, 64, 32),
        WarpTiling(64, 32, step=16, stages=2, blocks_per_sm=2, can_limit_sms=True),
        max_compute_capability=_HOPPER,  # for newer GPUs the compiler runs out of registers
    ),
    _tensor_float64(
        Tile(64, 64, 32),
        WarpTiling(32, 32, step=16, stages=2, blocks_per_sm=3, can_limit_sms=True),
        max_compute_capability=_HOPPER,
        automatic=False,
    ),
    _tensor_float64(
        Tile(128, 128, 32),
        WarpTiling(64, 32, step=16, stages=2, blocks_per_sm=1, can_limit_sms=True),
        max_compute_capability=_HOPPER,
        automatic=False,
    ),
    _tensor_float64(
        Tile(128, 64, 16), WarpTiling(64, 32, step=8, stages=3, blocks_per_sm=2, can_limit_sms=True)
    ),
    _tensor_float64(
        Tile(64, 128, 16),
        WarpTiling(64, 32, step=8, stages=3, blocks_per_sm=2),
        automatic=False,
    ),
    *(
        _tensor_half(dtype, Tile(128, columns, 64), tiling, automatic=automatic)
        for dtype in ("float16", "bfloat16")
        for columns, tiling, automatic in (
            (256, ClusterTiling(stages=4, cluster=2), True),
            (128, ClusterTiling(stages=6, cluster=1), False),
        )
    ),
    # cuBLAS picks among many kernels; these are its tiles for large products on Hopper.
    _cublas("float32", Tile(128, 256, 8), threads=256),
    _cublas("float64", Tile(64, 128, 16), threads=128),
    _cublas("float16", Tile(128, 256, 64), threads=384),
    _cublas("bfloat16", Tile(128, 256, 64), threads=384, min_compute_capability=(8, 0)),
    _cublas("complex64", Tile(128, 128, 8), threads=256),
    _cublas("complex128", Tile(64, 64, 8), threads=128),
)


@lru_cache(maxsize=256)
def list_kernels(
    *, dtype: str | None = None, compute_capability: tuple[int, int] | None = None
) -> tuple[KernelSpec, ...]:
    """Entries of the catalog, simplest kernels first.

    Args:
        dtype: Only entries of this element type.
        compute_capability: Only entries that a GPU of this compute capability runs.
    """
    return tuple(
        spec
        for spec in _CATALOG
        if (dtype is None or spec.dtype == dtype)
        and (compute_capability is None or spec.runs_on(compute_capability))
    )


def find_kernel(name: str, dtype: str, tile: str | None = None) -> KernelSpec:
    """The entry of that name, element type and tile.

    Args:
        name: Name of the kernel.
        dtype: NumPy's name of the element type.
        tile: "32" (W of a square tile), "64x128" (the first entry of that size) or "64x128x16";
            None for the kernel's default.

    Raises:
        UnknownKernel: No such kernel, or not with this element type or tile.
    """
    named = [spec for spec in _CATALOG if spec.name == name]
    if not named:
        raise UnknownKernel("kernel", name, _one_of(spec.name for spec in _CATALOG))
    typed = [spec for spec in named if spec.dtype == dtype]
    if not typed:
        raise UnknownKernel("dtype", dtype, f"{_one_of(s.dtype for s in named)} for {name}")
    if tile is None:
        return typed[0]
    for spec in typed:
        if tile in _spell_tile(spec):
            return spec
    limit = f"{_one_of(str(spec.tile) for spec in typed)} for {name} in {dtype}"
    raise UnknownKernel("tile", tile, limit)


def _spell_tile(spec: KernelSpec) -> tuple[str, ...]:
    """Accepted spellings of a tile."""
    tile = spec.tile
    spellings = (str(tile), f"{tile.m}x{tile.n}")
    return (*spellings, str(tile.n)) if tile.m == tile.n == tile.k else spellings


def _one_of(names: Iterable[str]) -> str:
    """The distinct names, in order: "one of a, b"."""
    return "one of " + ", ".join(dict.fromkeys(names))
