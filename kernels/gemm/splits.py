"""The memory of bfloat16 splits: where they lie, and how a product is cut to fit them.

Knows neither NumPy nor CuPy.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from wavetrim.kernels.catalog import KernelSpec
from wavetrim.kernels.tiling import SplitTiling, Tile

VERDICT_BYTES: Final = 256
"""What splits and products tell one another (struct Verdict in split.cuh), before the splits."""


@dataclass(frozen=True, slots=True)
class SplitMemory:
    """Where a product finds the splits of B, and leaves those that it makes.

    From `pointer` on lie the verdict, B's splits and A's. B's may reach over more steps of k than
    one product computes, so that products of some steps each leave theirs for one of all steps.

    Attributes:
        pointer: Address, a multiple of 256.
        depth: Steps of k for which there is room in B's splits.
        first: The step of these that is the product's first; a multiple of the tile's.
        fresh: Whether the product has to split B: its steps have not been split yet.
    """

    pointer: int
    depth: int
    first: int
    fresh: bool


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a product: some rows and columns of C, some steps of k."""

    rows: range
    columns: range
    depth: range


@dataclass(frozen=True, slots=True)
class PartSizes:
    """How large the parts of a product are; at the edges they are smaller.

    Attributes:
        rows: Rows of A split at a time.
        columns: Columns of B split at a time.
        depth: Steps of k.
        total_bytes: Memory that the splits of a part take.
    """

    rows: int
    columns: int
    depth: int
    total_bytes: int

    def list_parts(self, m: int, n: int, k: int) -> Iterator[Part]:
        """The parts: all rows of one stretch of columns after another, so that B is split once."""
        for depth in _cut(k, self.depth):
            for columns in _cut(n, self.columns):
                for rows in _cut(m, self.rows):
                    yield Part(rows, columns, depth)


def choose_part_sizes(spec: KernelSpec, m: int, n: int, k: int, most_bytes: int) -> PartSizes:
    """The fewest parts whose splits take at most `most_bytes`, or the least that there can be.

    Half of the memory is for A and half for B; what one does not need, the other may have.
    """
    tile, item_bytes = spec.tile, count_split_item_bytes(spec)
    strip_bytes = tile.k * item_bytes
    steps = min(-(-k // tile.k), max(1, most_bytes // ((tile.m + tile.n) * strip_bytes)))
    a_strip, b_strip = tile.m * steps * strip_bytes, tile.n * steps * strip_bytes
    strips_m, strips_n = -(-m // tile.m), -(-n // tile.n)
    spare_bytes = max(most_bytes // 2, most_bytes - strips_m * a_strip)
    strips_b = min(strips_n, max(1, spare_bytes // b_strip))
    strips_a = min(strips_m, max(1, (most_bytes - strips_b * b_strip) // a_strip))
    rows, columns, depth = strips_a * tile.m, strips_b * tile.n, steps * tile.k
    return PartSizes(
        rows, columns, depth, count_split_bytes(tile, item_bytes, rows, columns, depth)
    )


def count_split_item_bytes(spec: KernelSpec) -> int:
    """Bytes of the splits of one element; 0 for kernels that do not split."""
    return spec.tiling.count_split_bytes(1, 1) if isinstance(spec.tiling, SplitTiling) else 0


def find_split_item_bytes(spec: KernelSpec, k: int) -> int:
    """The same at so long a K: a short one is computed without splits."""
    return count_split_item_bytes(spec) if k >= spec.least_k else 0


def count_split_bytes(tile: Tile, item_bytes: int, rows: int, columns: int, depth: int) -> int:
    """Bytes of the verdict and of the splits of A and B, which are whole tiles.

    Args:
        tile: The kernel's tile.
        item_bytes: Bytes of the splits of one element.
        rows: Rows of A.
        columns: Columns of B.
        depth: Steps of k.
    """
    lines = -(-rows // tile.m) * tile.m + -(-columns // tile.n) * tile.n
    return VERDICT_BYTES + lines * -(-depth // tile.k) * tile.k * item_bytes


def _cut(size: int, most: int) -> Iterator[range]:
    """0…`size`-1 in stretches of `most`."""
    for first in range(0, size, most):
        yield range(first, min(first + most, size))
