"""Memory for bfloat16 terms, and how a product is cut to fit it.

Imports neither NumPy nor CuPy.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from wavetrim.kernels.spec import KernelSpec
from wavetrim.kernels.tiling import Tile

VERDICT_BYTES: Final = 256
"""Bytes before the terms, for what kernels report to each other (struct Verdict in terms.cuh)."""


@dataclass(frozen=True, slots=True)
class TermMemory:
    """Memory for the terms of one product: the verdict, then the terms of B, then those of A.

    B's terms may cover more of K than one product does: products over ranges of K each decompose
    their rows of B, and later products over all of K use these terms.

    Attributes:
        pointer: Address, a multiple of 256.
        depth: Rows of B for whose terms there is memory.
        first: First of these rows that the product uses; a multiple of the tile's k.
        fresh: Whether the product must decompose its rows of B.
    """

    pointer: int
    depth: int
    first: int
    fresh: bool


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a product: ranges of rows and columns of C and of k."""

    rows: range
    columns: range
    depth: range


@dataclass(frozen=True, slots=True)
class PartSizes:
    """Size of a product's parts; those at the edges are smaller.

    Attributes:
        rows: Rows of A decomposed at a time.
        columns: Columns of B decomposed at a time.
        depth: Columns of A, rows of B.
        total_bytes: Memory for the terms of a part.
    """

    rows: int
    columns: int
    depth: int
    total_bytes: int

    def list_parts(self, m: int, n: int, k: int) -> Iterator[Part]:
        """The parts. Rows are the innermost loop, so each part of B is decomposed only once."""
        for depth in _cut(k, self.depth):
            for columns in _cut(n, self.columns):
                for rows in _cut(m, self.rows):
                    yield Part(rows, columns, depth)


def choose_part_sizes(spec: KernelSpec, m: int, n: int, k: int, most_bytes: int) -> PartSizes:
    """The largest parts whose terms fit `most_bytes`, or one tile of A and B.

    A and B get half of the memory each; what one does not need goes to the other.
    """
    tile, item_bytes = spec.tile, spec.term_item_bytes
    strip_bytes = tile.k * item_bytes
    steps = min(-(-k // tile.k), max(1, most_bytes // ((tile.m + tile.n) * strip_bytes)))
    a_strip, b_strip = tile.m * steps * strip_bytes, tile.n * steps * strip_bytes
    strips_m, strips_n = -(-m // tile.m), -(-n // tile.n)
    spare_bytes = max(most_bytes // 2, most_bytes - strips_m * a_strip)
    strips_b = min(strips_n, max(1, spare_bytes // b_strip))
    strips_a = min(strips_m, max(1, (most_bytes - strips_b * b_strip) // a_strip))
    rows, columns, depth = strips_a * tile.m, strips_b * tile.n, steps * tile.k
    return PartSizes(rows, columns, depth, count_term_bytes(tile, item_bytes, rows, columns, depth))


def count_term_bytes(tile: Tile, item_bytes: int, rows: int, columns: int, depth: int) -> int:
    """Bytes of the verdict and of the terms of A and B, in whole tiles.

    Args:
        tile: The kernel's tile.
        item_bytes: Bytes of the terms of one element.
        rows: Rows of A.
        columns: Columns of B.
        depth: Steps of k.
    """
    lines = -(-rows // tile.m) * tile.m + -(-columns // tile.n) * tile.n
    return VERDICT_BYTES + lines * -(-depth // tile.k) * tile.k * item_bytes


def _cut(size: int, most: int) -> Iterator[range]:
    """Cut 0…`size`-1 into ranges of `most`."""
    for first in range(0, size, most):
        yield range(first, min(first + most, size))
