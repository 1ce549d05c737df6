"""The catalog of kernels: what each is compiled and launched with.

Imports neither NumPy nor CuPy: the planner reads it on machines without a GPU.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from wavetrim.kernels.compile import KERNEL_SOURCES
from wavetrim.kernels.errors import UnknownKernel
from wavetrim.kernels.tiling import (
    BulkTiling,
    ClusterTiling,
    RegisterTiling,
    SplitTiling,
    Tile,
    Tiling,
    WarpTiling,
)
from wavetrim.native.tuned import LEAST_SPLIT_K

_ITEM_BYTES: Final = {
    "float16": 2,
    "bfloat16": 2,
    "float32": 4,
    "float64": 8,
    "complex64": 8,
    "complex128": 16,
}
_ELEMENTS: Final = {"float16": "f16", "bfloat16": "bf16", "float32": "float", "float64": "double"}
"""CUDA's names of the element types; for those of 16 bits PTX's."""

_HOPPER: Final = (9, 0)
_PARTITION_SMS: Final = 8
"""Granularity of green contexts in multiprocessors, on Hopper and newer GPUs. On older GPUs it is
smaller and divides 8."""


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """One entry of the catalog: a kernel for one element type and one tile.

    Attributes:
        name: "naive", "simple", "coalesced", "shared", "register", "bulk", "tensor" or "cublas".
        dtype: NumPy's name of the element type.
        tile: What one block computes at a time; W × W × W for the first four kernels.
        threads: Threads of a block.
        source: File in kernels/cuda/; None for cuBLAS.
        accuracy: "strict" (IEEE fused multiply-adds of the element type in the order of k),
            "float32" or "float64" (tensor cores, with errors no larger than those of sums in that
            type) or "library" (whatever cuBLAS does, or the same: float16 and bfloat16 summed in
            float32 on tensor cores).
        min_compute_capability: Oldest GPU that runs it.
        max_compute_capability: Newest GPU that runs it; None for no limit.
        tiling: How the kernel divides its tile; None for W × W threads and for cuBLAS.
        keeps_order: Whether the assembler must keep the order of instructions in the source, which
            avoids register bank conflicts.
        automatic: Whether plans may choose it; otherwise it must be named. False for the first four
            kernels, which are there to be read (others are faster at any shape), and for a kernel
            whose tests have not all been run on a GPU.
    """

    name: str
    dtype: str
    tile: Tile
    threads: int
    source: str | None
    accuracy: str = "strict"
    min_compute_capability: tuple[int, int] = (7, 5)
    max_compute_capability: tuple[int, int] | None = None
    tiling: Tiling | None = None
    keeps_order: bool = False
    automatic: bool = True

    def __hash__(self) -> int:
        """A fast hash of the fields that distinguish nearly all entries: each launch needs it."""
        return hash((self.name, self.dtype, self.threads))

    @property
    def folder(self) -> Path:
        """Folder of the source."""
        return KERNEL_SOURCES

    @property
    def persistent(self) -> bool:
        """Whether a launch can be limited to some of the multiprocessors."""
        return self.source is None or (self.tiling is not None and self.tiling.holdable)

    @property
    def sms_quantum(self) -> int:
        """Granularity of a limit on multiprocessors."""
        if isinstance(self.tiling, ClusterTiling):
            return self.tiling.cluster
        return _PARTITION_SMS if self.source is None else 1

    def count_held_sms(self, sms: int, sm_count: int) -> int:
        """Multiprocessors that it uses when limited to `sms` of `sm_count`; 0 if that is too few.

        Only for a `persistent` kernel.
        """
        return sms if sms == sm_count else sms - sms % self.sms_quantum

    @property
    def splits_tail(self) -> bool:
        """Whether the last, partly filled wave is split along K over all multiprocessors."""
        return isinstance(self.tiling, BulkTiling)

    @property
    def splits_short(self) -> bool:
        """Whether a product of less than one wave is split along K, as cuBLAS does."""
        return self.source is None

    @property
    def least_k(self) -> int:
        """Smallest K that the kernel computes itself; below it another kernel does."""
        return LEAST_SPLIT_K if isinstance(self.tiling, SplitTiling) else 1

    @property
    def label(self) -> str:
        """Name, tile and element type: "register 64x128x16 float32"."""
        return f"{self.name} {self.tile} {self.dtype}"

    @property
    def block(self) -> tuple[int, ...]:
        """Shape of a thread block, x first."""
        return (self.threads,) if self.tiling else (self.tile.n, self.tile.m)

    @property
    def entries(self) -> tuple[str, ...]:
        """Functions of the compiled kernel; the first computes the product."""
        if self.source is None:
            return ()
        return self.tiling.entries if self.tiling else ("multiply",)

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block in bytes; 0 for cuBLAS, whose kernels vary."""
        item_bytes = _ITEM_BYTES[self.dtype]
        if self.tiling:
            return self.tiling.count_shared_bytes(self.tile, item_bytes)
        tiles = {"coalesced": 1, "shared": 2}.get(self.name, 0)
        return tiles * self.tile.m * self.tile.n * item_bytes

    @property
    def dynamic_shared_bytes(self) -> int:
        """The part of `shared_bytes` that is allocated at launch."""
        return self.shared_bytes if self.tiling else 0

    @property
    def macros(self) -> dict[str, str]:
        """Macros to compile the source with; none for cuBLAS."""
        if self.source is None:
            return {}
        element = {"ELEMENT": _ELEMENTS[self.dtype]}
        if self.tiling is None:
            return element | {"W": str(self.tile.n)}
        shared = {"SHARED_BYTES": str(self.shared_bytes)}
        return element | self.tile.macros | self.tiling.macros | shared

    def runs_on(self, compute_capability: tuple[int, int]) -> bool:
        """Whether a GPU of this compute capability runs it."""
        newest = self.max_compute_capability or compute_capability
        return self.min_compute_capability <= compute_capability <= newest


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
    automatic=False,  # resident float16 products are tested on an H200, others not yet
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
    _register_float32(Tile(64, 64, 16), RegisterTiling(8, 8, stages=3, blocks_per_sm=6)),
    _register_float64(Tile(128, 128, 8), RegisterTiling(8, 8, stages=3, blocks_per_sm=1)),
    _register_float64(Tile(64, 128, 8), RegisterTiling(8, 8, stages=3, blocks_per_sm=2)),
    _register_float64(Tile(64, 64, 8), RegisterTiling(8, 8, stages=3, blocks_per_sm=4)),
    _bulk(Tile(128, 256, 16), BulkTiling(8, 16, stages=6, registers=232)),
    _bulk(Tile(128, 128, 16), BulkTiling(8, 8, stages=6, registers=240)),
    _tensor_float32(Tile(128, 128, 32), SplitTiling(stages=3, chain=2, flush=16, split_blocks=3)),
    _tensor_float64(
        Tile(128, 64, 32),
        WarpTiling(64, 32, step=16, stages=2, blocks_per_sm=2, holdable=True),
        max_compute_capability=_HOPPER,  # for newer GPUs the compiler runs out of registers
    ),
    _tensor_float64(
        Tile(64, 64, 32),
        WarpTiling(32, 32, step=16, stages=2, blocks_per_sm=3, holdable=True),
        max_compute_capability=_HOPPER,
    ),
    _tensor_float64(
        Tile(128, 128, 32),
        WarpTiling(64, 32, step=16, stages=2, blocks_per_sm=1, holdable=True),
        max_compute_capability=_HOPPER,
    ),
    _tensor_float64(
        Tile(128, 64, 16), WarpTiling(64, 32, step=8, stages=3, blocks_per_sm=2, holdable=True)
    ),
    _tensor_float64(Tile(64, 128, 16), WarpTiling(64, 32, step=8, stages=3, blocks_per_sm=2)),
    *(
        _tensor_half(dtype, Tile(128, columns, 64), tiling)
        for dtype in ("float16", "bfloat16")
        for columns, tiling in (
            (256, ClusterTiling(stages=4, cluster=2)),
            (128, ClusterTiling(stages=6, cluster=1)),
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
