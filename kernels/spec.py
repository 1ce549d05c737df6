"""A kernel: what it is compiled and launched with.

Imports neither NumPy nor CuPy, like the catalog.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wavetrim.kernels.compile import KERNEL_SOURCES
from wavetrim.kernels.tiling import BulkTiling, ClusterTiling, TermTiling, Tile, Tiling

LEAST_TERMS_K: Final = 128  # columns of A
"""Smallest K that is computed from bfloat16 terms. Chosen: below it memory bandwidth is the limit,
so sums in float64 take no longer and are more accurate."""

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

_PARTITION_SMS: Final = 8
"""Granularity of green contexts, in multiprocessors. On GPUs before Hopper it is smaller and
divides 8."""


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """One entry of the catalog: a kernel for one element type and one tile.

    Attributes:
        name: "naive", "simple", "coalesced", "shared", "register", "bulk", "tensor" or "cublas".
        dtype: NumPy's name of the element type.
        tile: What one block computes at a time; W × W × W for the first four kernels.
        threads: Threads of a block.
        source: File in kernels/cuda/; None for cuBLAS.
        accuracy: "strict": IEEE fused multiply-adds of the element type in the order of k, except
            in tiles that `kernels/gemm/tails.py` divides along K. "float32" or "float64": tensor
            cores, with errors no larger than those of sums in that type. "library": as accurate as
            cuBLAS, which sums float16 and bfloat16 in float32 on tensor cores.
        min_compute_capability: Oldest GPU that runs it.
        max_compute_capability: Newest GPU that runs it; None for no limit.
        tiling: How the kernel divides its tile; None for W × W threads and for cuBLAS.
        keeps_order: Whether the assembler must keep the order of instructions in the source, which
            avoids register bank conflicts.
        automatic: Whether plans may choose it; otherwise a caller must name it. True for two or
            three kernels of an element type and accuracy, one of which is nearly always the
            fastest. The first four kernels are there to be read.
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
        """A fast hash, because each launch needs it; it tells nearly all entries apart."""
        return hash((self.name, self.dtype, self.threads))

    @property
    def item_bytes(self) -> int:
        """Bytes of an element."""
        return _ITEM_BYTES[self.dtype]

    @property
    def folder(self) -> Path:
        """Folder of the source."""
        return KERNEL_SOURCES

    @property
    def is_cublas(self) -> bool:
        """Whether this is cuBLAS, which has no source here."""
        return self.source is None

    @property
    def can_limit_sms(self) -> bool:
        """Whether a launch can be limited to some of the multiprocessors."""
        return self.is_cublas or (self.tiling is not None and self.tiling.can_limit_sms)

    @property
    def sms_quantum(self) -> int:
        """Granularity of a limit on multiprocessors."""
        if isinstance(self.tiling, ClusterTiling):
            return self.tiling.cluster
        return _PARTITION_SMS if self.is_cublas else 1

    def count_usable_sms(self, sms: int, sm_count: int) -> int:
        """Multiprocessors that it uses if limited to `sms` of `sm_count`; 0 if that is too few."""
        return sms if sms == sm_count else sms - sms % self.sms_quantum

    @property
    def stream_k_tail(self) -> bool:
        """Whether the last, partly filled wave is divided along K among all multiprocessors."""
        return isinstance(self.tiling, BulkTiling)

    @property
    def stream_k_short(self) -> bool:
        """Whether a product of less than one wave is divided along K, as cuBLAS does."""
        return self.is_cublas

    @property
    def least_k(self) -> int:
        """Smallest K that the kernel computes itself; below it another kernel does."""
        return LEAST_TERMS_K if isinstance(self.tiling, TermTiling) else 1

    @property
    def term_item_bytes(self) -> int:
        """Bytes of an element's bfloat16 terms; 0 for kernels without terms."""
        return self.tiling.count_term_bytes(1, 1) if isinstance(self.tiling, TermTiling) else 0

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
        if self.is_cublas:
            return ()
        return self.tiling.entries if self.tiling else ("multiply",)

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block in bytes; 0 for cuBLAS, whose kernels vary."""
        if self.tiling:
            return self.tiling.count_shared_bytes(self.tile, self.item_bytes)
        tiles = {"coalesced": 1, "shared": 2}.get(self.name, 0)
        return tiles * self.tile.m * self.tile.n * self.item_bytes

    @property
    def dynamic_shared_bytes(self) -> int:
        """The part of `shared_bytes` that is allocated at launch."""
        return self.shared_bytes if self.tiling else 0

    @property
    def macros(self) -> dict[str, str]:
        """Macros to compile the source with; none for cuBLAS."""
        if self.is_cublas:
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
