"""float32 products from bfloat16 terms, with a fallback to the strict kernel.

Each float32 is the sum of three bfloat16, its *terms*. A product is four launches: decompose the
columns of B, decompose the rows of A, multiply, and the strict register kernel. The first two note
on the device whether the terms are exact. If they are, the strict kernel returns at once; if not,
the multiplication does, and the strict kernel computes. So the host need not wait.

Products with a short K are computed without tensor cores, with sums in float64.
"""

from collections.abc import Sequence
from ctypes import c_float, c_int64, c_uint64
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from wavetrim.kernels.catalog import find_kernel
from wavetrim.kernels.gemm.launch import count_sms, load_functions, prepare_strict, prepare_tiles
from wavetrim.kernels.gemm.operands import Product
from wavetrim.kernels.gemm.prepared import Command, CommandKind, PreparedLaunch, prepare_kernel
from wavetrim.kernels.gemm.terms import VERDICT_BYTES, TermMemory, count_term_bytes
from wavetrim.kernels.spec import LEAST_TERMS_K, KernelSpec
from wavetrim.kernels.tiling import RegisterTiling, TermTiling, Tile

SHORT: Final = replace(
    find_kernel("register", "float32", "64x64x16"),
    threads=128,
    accuracy="float32",
    tiling=RegisterTiling(4, 8, stages=3, blocks_per_sm=3, wide_sums=True),
    keeps_order=False,
)
"""The kernel for K below LEAST_TERMS_K."""

SHORT_LIMITED: Final = replace(
    SHORT,
    tile=Tile(64, 128, 16),
    threads=256,
    tiling=RegisterTiling(4, 8, stages=3, blocks_per_sm=1, wide_sums=True, persistent=True),
)
"""The same with persistent blocks, one for each multiprocessor."""

_VERDICT: Final = ("largest_a", "rejected", "largest_b")  # struct Verdict in terms.cuh
_TERM_THREADS: Final = 512


def prepare_terms(
    spec: KernelSpec,
    product: Product,
    cache_dir: Path,
    *,
    sms: int | None = None,
    memory: TermMemory | None = None,
) -> PreparedLaunch:
    """Prepare a float32 product through bfloat16 terms.

    Args:
        spec: The kernel.
        product: The product.
        cache_dir: Folder of compiled kernels.
        sms: Limit of multiprocessors; None for all.
        memory: Memory for the terms of the whole product; None to allocate from CuPy's pool.

    Raises:
        OutOfMemoryError: CuPy's; not enough memory for the terms.
    """
    if memory is not None:
        return PreparedLaunch(_Launch(spec, product, memory, cache_dir, sms).prepare())
    if product.k < LEAST_TERMS_K:
        return PreparedLaunch((prepare_tiles(_choose_short(sms), product, cache_dir, sms=sms),))
    from cupy.cuda import alloc

    shape = product.c.rows, product.c.columns, product.k
    # The pool reuses the memory only for later work on this stream.
    pooled = alloc(count_term_bytes(spec.tile, spec.term_item_bytes, *shape))
    memory = TermMemory(pooled.ptr, product.k, 0, fresh=True)
    *others, last = _Launch(spec, product, memory, cache_dir, sms).prepare()
    last = replace(last, memory=(last.memory, pooled))
    return PreparedLaunch((*others, last), lasting=False)


class _Launch:
    """The launches of one product whose terms fit the memory.

    Args:
        spec: The kernel.
        product: The product.
        memory: Memory for the terms.
        cache_dir: Folder of compiled kernels.
        sms: Limit of multiprocessors; None for all.
    """

    def __init__(
        self,
        spec: KernelSpec,
        product: Product,
        memory: TermMemory,
        cache_dir: Path,
        sms: int | None,
    ) -> None:
        assert isinstance(spec.tiling, TermTiling), "only these kernels have terms"
        assert memory.first % spec.tile.k == 0, "terms are whole tiles"
        self._spec, self._product, self._memory = spec, product, memory
        self._cache_dir, self._sms = cache_dir, sms
        count_bytes, tile = spec.tiling.count_term_bytes, spec.tile
        self._pitch = -(-memory.depth // tile.k)  # tiles from one strip of B to the next
        strips = -(-product.c.columns // tile.n)
        of_b = memory.pointer + VERDICT_BYTES
        self._b = of_b + memory.first * count_bytes(tile.n, 1)
        self._a = of_b + strips * self._pitch * count_bytes(tile.n, tile.k)
        self._multiply, self._of_rows, self._of_columns = load_functions(spec, cache_dir)

    def prepare(self) -> tuple[Command, ...]:
        """The terms, the product, and the strict kernel."""
        decompose_columns = self._prepare_columns() if self._memory.fresh else ()
        if self._product.k < LEAST_TERMS_K:
            short = _choose_short(self._sms)
            tiles = prepare_tiles(short, self._product, self._cache_dir, sms=self._sms)
            return *decompose_columns, tiles
        rejected = self._locate("rejected")
        strict = prepare_strict(self._product, self._cache_dir, sms=self._sms, wanted=rejected)
        return *decompose_columns, *self._prepare_rows(), self._prepare_product(), strict

    def _prepare_columns(self) -> tuple[Command, ...]:
        b, k = self._product.b, self._product.k
        values = (
            *(c_int64(b.columns), c_int64(k), c_uint64(b.pointer), c_int64(b.leading_dimension)),
            *(c_uint64(self._b), c_int64(self._pitch), c_uint64(self._memory.pointer)),
        )
        terms = self._prepare_terms(self._of_columns, b.columns, values)
        return (self._clear("largest_b", 1), terms) if self._memory.first == 0 else (terms,)

    def _prepare_rows(self) -> tuple[Command, ...]:
        a, k = self._product.a, self._product.k
        values = (
            *(c_int64(a.rows), c_int64(k), c_uint64(a.pointer), c_int64(a.leading_dimension)),
            *(c_uint64(self._a), c_int64(-(-k // self._spec.tile.k))),
            c_uint64(self._memory.pointer),
        )
        return self._clear("largest_a", 2), self._prepare_terms(self._of_rows, a.rows, values)

    def _prepare_product(self) -> Command:
        product, tile, c = self._product, self._spec.tile, self._product.c
        tiles = -(-c.rows // tile.m) * -(-c.columns // tile.n)
        values = (
            *(c_int64(c.rows), c_int64(c.columns), c_int64(product.k), c_float(product.alpha)),
            *(c_uint64(self._a), c_uint64(self._b), c_int64(self._pitch), c_float(product.beta)),
            *(c_uint64(c.pointer), c_int64(c.leading_dimension), c_uint64(self._memory.pointer)),
        )
        return prepare_kernel(
            *(self._multiply, min(tiles, self._sms or count_sms()), self._spec.block, values),
            shared_bytes=self._spec.dynamic_shared_bytes,
        )

    def _prepare_terms(self, function: Any, lines: int, values: Sequence[Any]) -> Command:
        """A launch of as many blocks as run at once, or of one for each of `sms`."""
        assert isinstance(self._spec.tiling, TermTiling), "only these kernels have terms"
        tile = self._spec.tile  # square
        tiles = -(-lines // tile.m) * -(-self._product.k // tile.k)
        blocks = min(tiles, self._sms or self._spec.tiling.term_blocks * count_sms())
        shared_bytes = 2 * self._spec.tiling.count_term_bytes(tile.m, tile.k)
        return prepare_kernel(function, blocks, (_TERM_THREADS,), values, shared_bytes=shared_bytes)

    def _clear(self, name: str, count: int) -> Command:
        """Clears `count` fields of the verdict, starting with `name`."""
        return Command(CommandKind.CLEAR, (self._locate(name), 4 * count))

    def _locate(self, name: str) -> int:
        return self._memory.pointer + 4 * _VERDICT.index(name)


def _choose_short(sms: int | None) -> KernelSpec:
    return SHORT if sms is None else SHORT_LIMITED
