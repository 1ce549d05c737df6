"""How operands are cut to be sent to a node. Pure."""

from itertools import pairwise
from typing import Final

STORE_SHARE: Final = 8
"""Ray's store over its largest object, so that several fit without a file on disk; chosen."""

LEAST_BLOCK_SECONDS: Final = 0.02
"""Least time of a block. Chosen: a call of its own takes 1 to 2 ms."""

MOST_BLOCKS: Final = 16
"""Most blocks of a product, unless the store needs more. Chosen: only the first block's way in and
the last one's way back overlap no computing."""


def cut_rows(rows: int, row_bytes: int, *, store_bytes: int, seconds: float) -> list[range]:
    """Cut rows of A and C into blocks of about one size.

    Args:
        rows: Rows of the product, at least 1.
        row_bytes: Bytes of a row of A or of C, whichever is longer.
        store_bytes: Size of Ray's store.
        seconds: Predicted seconds of the node for all rows.
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
