"""float32 products from bfloat16 splits: their memory, their launches, the way back to float32.

A product is three launches: split the rows of A, split the columns of B, multiply. What the splits
find in A and B decides on the device whether bfloat16 can stand for them; if not, the product does
nothing, and a fourth launch, of the strict register kernel, computes in its place. The host waits
for nothing.

Sums of few products are computed in float64 on the ordinary cores instead.

Large products are cut into parts whose splits fit the memory set aside for them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from kernels.catalog import KernelSpec, find_kernel
from kernels.errors import DeviceFailure
from kernels.launch import launch_tiles, load_functions
from kernels.operands import Product
from kernels.tiling import RegisterTiling, SplitTiling

LEAST_K: Final = 128
"""Below it, where memory is the limit, float64 sums are affordable, and no error is smaller."""

SHORT: Final = replace(
    find_kernel("register", "float32", "64x64x16"),
    threads=128,
    accuracy="float32",
    tiling=RegisterTiling(4, 8, stages=3, blocks_per_sm=3, wide_sums=True),
)
"""The kernel for fewer than LEAST_K steps of k."""

MOST_WORKSPACE_BYTES: Final = 4 << 30
"""Splits of A and B at one time, where the GPU has that much memory to spare."""

_VERDICT: Final = ("largest_a", "rejected", "largest_b")  # struct Verdict in split.cuh
_VERDICT_BYTES: Final = 256
_SPLIT_THREADS: Final = 256
_SPLIT_SHARED_BYTES: Final = 4
_SM_COUNT: Final = 16  # cudaDevAttrMultiProcessorCount


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a product: some rows and columns of C, some steps of k."""

    rows: range
    columns: range
    depth: range


@dataclass(frozen=True, slots=True)
class Cut:
    """How large the parts of a product are; at the edges they are smaller.

    Attributes:
        rows: Rows of A split at a time.
        columns: Columns of B split at a time.
        depth: Steps of k.
        a_bytes: Splits of A, whole tiles of them.
        b_bytes: Splits of B, likewise.
    """

    rows: int
    columns: int
    depth: int
    a_bytes: int
    b_bytes: int

    def list_parts(self, m: int, n: int, k: int) -> Iterator[Part]:
        """The parts: all rows of one stretch of columns after another, so that B is split once."""
        for depth in _cut(k, self.depth):
            for columns in _cut(n, self.columns):
                for rows in _cut(m, self.rows):
                    yield Part(rows, columns, depth)


def choose_cut(spec: KernelSpec, m: int, n: int, k: int, most_bytes: int) -> Cut:
    """The fewest parts whose splits take at most `most_bytes`, or the least that there can be.

    Half of the memory is for A and half for B; what one does not need, the other may have.
    """
    assert isinstance(spec.tiling, SplitTiling), "only splits take memory"
    tile, count_bytes = spec.tile, spec.tiling.count_split_bytes
    tile_bytes = count_bytes(tile.m, tile.k) + count_bytes(tile.n, tile.k)
    steps = min(-(-k // tile.k), max(1, most_bytes // tile_bytes))
    a_strip, b_strip = count_bytes(tile.m, steps * tile.k), count_bytes(tile.n, steps * tile.k)
    strips_m, strips_n = -(-m // tile.m), -(-n // tile.n)
    strips_b = min(
        strips_n, max(1, max(most_bytes // 2, most_bytes - strips_m * a_strip) // b_strip)
    )
    strips_a = min(strips_m, max(1, (most_bytes - strips_b * b_strip) // a_strip))
    return Cut(
        rows=strips_a * tile.m,
        columns=strips_b * tile.n,
        depth=steps * tile.k,
        a_bytes=strips_a * a_strip,
        b_bytes=strips_b * b_strip,
    )


def launch_splits(spec: KernelSpec, product: Product, cache_dir: Path) -> None:
    """Enqueue a product in float32 through bfloat16 splits.

    Raises:
        DeviceFailure: There is no memory for the splits of even one tile.
    """
    if product.k < LEAST_K:
        launch_tiles(SHORT, product, cache_dir)
        return
    strict = find_kernel("register", spec.dtype)
    shape = (product.c.rows, product.c.columns, product.k)
    cut, memory = _allocate(spec, shape)
    splits = _Splits(spec, memory.ptr, cut.a_bytes, cache_dir)
    columns: tuple[range, range] | None = None
    for part in cut.list_parts(*shape):
        piece = product.cut(part.rows, part.columns, part.depth)
        if columns != (part.columns, part.depth):
            columns = part.columns, part.depth
            splits.split_columns(piece)
        splits.split_rows(piece)
        splits.multiply(piece)
        launch_tiles(strict, piece, cache_dir, wanted=splits.rejected)


class _Splits:
    """The workspace and the functions that fill and use it, in this order: verdict, A, B.

    Args:
        spec: The kernel.
        pointer: Address of the workspace.
        a_bytes: Bytes of the splits of A.
        cache_dir: Folder of compiled kernels.
    """

    def __init__(self, spec: KernelSpec, pointer: int, a_bytes: int, cache_dir: Path) -> None:
        self._spec = spec
        self._verdict = pointer
        self._a = pointer + _VERDICT_BYTES
        self._b = self._a + a_bytes
        self._multiply, self._split_rows, self._split_columns = load_functions(spec, cache_dir)

    @property
    def rejected(self) -> int:
        """Address of the number that is not 0 once a product was left to a strict kernel."""
        return self._locate("rejected")

    def split_rows(self, product: Product) -> None:
        """Enqueue the splits of A."""
        a = product.a
        self._clear("largest_a", "rejected")
        arguments = (
            *(np.int64(a.rows), np.int64(product.k)),
            *(np.uint64(a.pointer), np.int64(a.leading_dimension)),
            *(np.uint64(self._a), np.uint64(self._verdict)),
        )
        self._launch_split(self._split_rows, self._count_tiles(a.rows, product.k), arguments)

    def split_columns(self, product: Product) -> None:
        """Enqueue the splits of B."""
        b = product.b
        self._clear("largest_b")
        arguments = (
            *(np.int64(b.columns), np.int64(product.k)),
            *(np.uint64(b.pointer), np.int64(b.leading_dimension)),
            *(np.uint64(self._b), np.uint64(self._verdict)),
        )
        self._launch_split(self._split_columns, self._count_tiles(b.columns, product.k), arguments)

    def multiply(self, product: Product) -> None:
        """Enqueue the product of the splits: as many blocks as there are multiprocessors."""
        from cupy.cuda import runtime

        tile, c = self._spec.tile, product.c
        tiles = -(-c.rows // tile.m) * -(-c.columns // tile.n)
        sm_count = runtime.deviceGetAttribute(_SM_COUNT, runtime.getDevice())
        arguments = (
            *(np.int64(c.rows), np.int64(c.columns), np.int64(product.k)),
            *(np.float32(product.alpha), np.uint64(self._a), np.uint64(self._b)),
            *(np.float32(product.beta), np.uint64(c.pointer), np.int64(c.leading_dimension)),
            np.uint64(self._verdict),
        )
        self._multiply(
            *((min(tiles, sm_count),), self._spec.block, arguments),
            shared_mem=self._spec.dynamic_shared_bytes,
        )

    def _launch_split(self, function: Any, tiles: int, arguments: tuple[Any, ...]) -> None:
        function((tiles,), (_SPLIT_THREADS,), arguments, shared_mem=_SPLIT_SHARED_BYTES)

    def _count_tiles(self, lines: int, depth: int) -> int:
        tile = self._spec.tile  # as high as wide
        return -(-lines // tile.m) * -(-depth // tile.k)

    def _clear(self, *names: str) -> None:
        """Set parts of the verdict to 0 once what was enqueued before is done."""
        from cupy.cuda import get_current_stream, runtime

        for name in names:
            runtime.memsetAsync(self._locate(name), 0, 4, get_current_stream().ptr)

    def _locate(self, name: str) -> int:
        return self._verdict + 4 * _VERDICT.index(name)


def _allocate(spec: KernelSpec, shape: tuple[int, int, int]) -> tuple[Cut, Any]:
    """Memory for the splits, from CuPy's pool: less and less, down to one tile of A and of B.

    The pool gives memory back only to work on the same stream, which comes after ours.
    """
    import cupy

    most_bytes = MOST_WORKSPACE_BYTES
    while True:
        cut = choose_cut(spec, *shape, most_bytes)
        needed = _VERDICT_BYTES + cut.a_bytes + cut.b_bytes
        try:
            return cut, cupy.cuda.alloc(needed)
        except cupy.cuda.memory.OutOfMemoryError as error:
            if most_bytes < cut.a_bytes + cut.b_bytes:
                message = f"{spec.label} needs {needed} bytes of GPU memory for splits: {error}"
                raise DeviceFailure(message) from error
        most_bytes = (cut.a_bytes + cut.b_bytes) // 2


def _cut(size: int, most: int) -> Iterator[range]:
    """0…`size`-1 in stretches of `most`."""
    for first in range(0, size, most):
        yield range(first, min(first + most, size))
