"""Memory for bfloat16 terms. Imports neither NumPy nor CuPy."""

from dataclasses import dataclass
from typing import Final

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
