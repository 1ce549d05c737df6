"""How a product is cut for its way to a node: pure arithmetic."""

from itertools import pairwise
from typing import Final

STORE_SHARE: Final = 8
"""One object takes at most this part of Ray's store, so that several are under way without a disk
file; chosen."""

LEAST_BLOCK_SECONDS: Final = 0.02
"""A block that is computed faster is not worth a call of its own, which takes 1 to 2 ms; chosen."""

MOST_BLOCKS: Final = 16
"""Blocks of rows that a product is cut into where memory asks for no more: the first one's way in
and the last one's way back are not hidden behind other work; chosen."""


def cut_rows(rows: int, row_bytes: int, *, store_bytes: int, seconds: float) -> list[range]:
    """Cut rows of A and C into blocks of about one size.

    Args:
        rows: Rows of the product, at least 1.
        row_bytes: The longer one of a row of A and a row of C.
        store_bytes: Size of Ray's store.
        seconds: What the node should take for all rows.
    """
    wanted = min(MOST_BLOCKS, max(1, int(seconds / LEAST_BLOCK_SECONDS)))
    least = -(-rows * row_bytes // max(row_bytes, store_bytes // STORE_SHARE))
    return cut_evenly(rows, max(wanted, least))


def cut_operand(rows: int, row_bytes: int, *, store_bytes: int) -> list[range]:
    """Cut the rows of an operand into as few parts as Ray's store allows."""
    return cut_evenly(rows, -(-rows * row_bytes // max(row_bytes, store_bytes // STORE_SHARE)))


def cut_evenly(rows: int, count: int) -> list[range]:
    """Consecutive ranges that differ by at most one row; fewer than `count` for fewer rows."""
    count = max(1, min(rows, count))
    ends = [rows * index // count for index in range(count + 1)]
    return [range(start, stop) for start, stop in pairwise(ends)]
