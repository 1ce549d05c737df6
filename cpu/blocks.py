"""Blocks of C for a pool of threads: the rows and columns that one thread computes at a time.

A block of r rows and s columns costs 2 r s K operations. Before these, BLAS packs r K elements of A
and K s elements of B into its own layout. Many small blocks keep all threads busy to the end; few
square blocks pack little. `choose_grid` weighs the two.
"""

from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from wavetrim.native.tuned import MIN_BLOCK_TERMS, NARROW_COLUMNS, NARROW_TIMES, WIDE_TIMES

MAX_BLOCK_FLOPS: Final = 1 << 33  # operations
"""Largest block. Chosen: about a tenth of a second, so that a product can be cancelled."""

ELEMENT_TERMS: Final = 12  # terms
"""Time to read or write an element that other threads used meanwhile, in multiply-adds. Chosen: on
an H200's host 8 if the element is in the caches, 20 if it is in memory (8 GB/s)."""

BLOCKS_PER_THREAD: Final = 4  # blocks
"""Most blocks of a thread, if all are LARGE. Chosen: cores differ in speed."""

PACKING_WEIGHT: Final = 48  # rows or columns
"""Time for BLAS to pack a block's part of B (or A), in rows (or columns) that it computes in that
time. Chosen: 32 on an H200's host, 4 to 12 on an EPYC with AVX-512."""

MOST_TERMS: Final = 1 << 16  # terms, M N K
"""Largest product of any type but float32 and float64 that the calling thread computes alone;
chosen."""

LEAST_SHARED: Final = 4
"""Least size of a product that threads share, in smallest blocks (MIN_BLOCK_TERMS); chosen."""

LARGE: Final = 16
"""Least size of a block if a thread gets several, in smallest blocks (MIN_BLOCK_TERMS). Chosen:
with smaller ones BLAS packs more."""

STREAMED_K: Final = 16
"""Longest K with which a C larger than the caches is written past them; with longer ones arithmetic
is the limit. On two cores of a Xeon (L3 of 480 MiB) plain stores take 1.7 to 3.2 times as long with
K ≤ 8; with 16 in float64 3.1, in float32 1.4 to 1.7 (4ee5e163)."""

STREAMED_BYTES: Final = 64 << 20
STREAMED_TIMES: Final = 4
"""Least size of such a C, in bytes, and in times that of A and of B, which are read all the same.
Chosen."""

ROW_QUANTUM = 16
COLUMN_QUANTUM = 32
"""Edges of blocks are multiples of these: tiles of BLAS's innermost loops."""


class Block(NamedTuple):
    """Ranges of rows, columns and K that one thread computes at a time, in the order of calls.h.

    The range of K is 0…K unless K is cut.
    """

    row_start: int
    row_stop: int
    column_start: int
    column_stop: int
    depth_start: int
    depth_stop: int

    @property
    def rows(self) -> slice:
        """The rows as a slice."""
        return slice(self.row_start, self.row_stop)

    @property
    def columns(self) -> slice:
        """The columns as a slice."""
        return slice(self.column_start, self.column_stop)

    @property
    def depth(self) -> slice:
        """The range of K as a slice."""
        return slice(self.depth_start, self.depth_stop)


def is_streamed(m: int, n: int, k: int, item_bytes: int) -> bool:
    """Whether C threads write C[m,n], of a type that BLAS has, past the caches (streamed.c)."""
    is_short = k <= STREAMED_K and STREAMED_TIMES * k <= min(m, n)
    return is_short and m * n * item_bytes >= STREAMED_BYTES


def cut_range(size: int, parts: int, quantum: int) -> list[tuple[int, int]]:
    """Cut 0…size into at most `parts` ranges of nearly equal length on multiples of `quantum`."""
    quanta = -(-size // quantum)
    parts = max(1, min(parts, quanta))
    edges = [min(size, quanta * part // parts * quantum) for part in range(parts + 1)]
    return list(pairwise(edges))


def cut_blocks(
    m: int, n: int, k: int, *, threads: int, max_elements: int | None = None
) -> list[Block]:
    """Cut C[m,n] into blocks that cover it once, each with the whole of K.

    Few rows and a wide B become column blocks, few columns become row blocks, and a product too
    small to share stays one block.

    Args:
        m: Rows of A and C, at least 1.
        n: Columns of B and C, at least 1.
        k: Columns of A and rows of B, at least 1.
        threads: Threads that will take the blocks.
        max_elements: Largest block in elements, if blocks need temporaries; None for no limit.

    Returns:
        The blocks, row by row.
    """
    row_parts, column_parts = choose_grid(m, n, k, threads, max_elements)
    columns = cut_range(n, column_parts, COLUMN_QUANTUM)
    return [
        Block(*rows, *column, 0, k)
        for rows in cut_range(m, row_parts, ROW_QUANTUM)
        for column in columns
    ]


def cut_depth(m: int, n: int, k: int, *, threads: int) -> list[Block]:
    """Cut K for a product with a K much longer than M; [] if that is no gain.

    Each thread then reads whole rows of B. That matters most if its block would have few columns,
    and so a short piece of each row.

    Returns:
        Blocks that all cover the whole of C, each with a part of K; their products are to be
        added up.
    """
    # Each part writes a C of its own, and one thread adds them up.
    shares = count_shares(m, n, k, threads)
    least = NARROW_TIMES if n < NARROW_COLUMNS * shares else WIDE_TIMES
    if shares < 2 or k < least * shares * m:
        return []
    return [Block(0, m, 0, n, *depth) for depth in cut_range(k, shares, ROW_QUANTUM)]


@lru_cache(maxsize=1024)
def choose_grid(m: int, n: int, k: int, threads: int, max_elements: int | None) -> tuple[int, int]:
    """Choose into how many ranges to cut the rows and the columns.

    Returns:
        (ranges of rows, ranges of columns).
    """
    needed, large = _count_needed(m, n, k, max_elements), count_useful(m, n, k) // LARGE
    shares = max(needed, count_shares(m, n, k, threads))
    rounds = min(BLOCKS_PER_THREAD, max(1, large // (BLOCKS_PER_THREAD * threads)))
    enough = max(shares, min(large, min(rounds, 2) * threads))
    wanted = max(shares, min(large, rounds * threads))
    most_rows, most_columns = -(-m // ROW_QUANTUM), -(-n // COLUMN_QUANTUM)
    grids = [
        (rows, min(most_columns, -(-wanted // rows)))
        for rows in range(1, min(wanted, most_rows) + 1)
    ]

    def rate(grid: tuple[int, int]) -> tuple[bool, int]:
        return grid[0] * grid[1] < enough, _rate_grid(m, n, threads, grid)

    return min(grids, key=rate)


def can_share(m: int, n: int, k: int) -> bool:
    """Whether a product is large enough for more than one thread."""
    return count_useful(m, n, k) >= LEAST_SHARED


def count_shares(m: int, n: int, k: int, threads: int) -> int:
    """How many of `threads` compute a product: one if it is too small to share."""
    return min(threads, count_useful(m, n, k)) if can_share(m, n, k) else 1


@lru_cache(maxsize=1024)
def is_small(m: int, n: int, k: int, dtype: str) -> bool:
    """Whether NumPy in the calling thread computes a product faster than the thread pool."""
    return not can_share(m, n, k) if dtype in ("float32", "float64") else m * n * k <= MOST_TERMS


def _rate_grid(m: int, n: int, threads: int, grid: tuple[int, int]) -> int:
    """Time of a grid, in elements of C that one thread computes in that time."""
    row_parts, column_parts = grid
    rows, columns = -(-m // row_parts), -(-n // column_parts)
    rounds = -(-row_parts * column_parts // threads)
    return rounds * (rows + PACKING_WEIGHT) * (columns + PACKING_WEIGHT)


def _count_needed(m: int, n: int, k: int, max_elements: int | None) -> int:
    """Fewest blocks that are each small enough."""
    of_elements = -(-m * n // max_elements) if max_elements else 1
    return max(-(-2 * m * n * k // MAX_BLOCK_FLOPS), of_elements)


def count_useful(m: int, n: int, k: int) -> int:
    """Most blocks that are each worth a thread: by terms, and by elements to move."""
    elements = m * k + k * n + m * n
    return (m * n * k + ELEMENT_TERMS * elements) // MIN_BLOCK_TERMS
