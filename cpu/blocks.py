"""Blocks of C for a pool of threads: which rows and columns one thread computes at a time.

A block of r rows and s columns costs 2 r s K operations, and in front of them BLAS copies
r K elements of A and K s elements of B into its own layout. Many small blocks keep all threads
busy to the end, few square blocks copy little; `choose_grid` weighs the two.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

MAX_BLOCK_FLOPS = 1 << 33
"""A block takes at most about a tenth of a second, so that a product can be cancelled."""

MIN_BLOCK_FLOPS = 1 << 25
MIN_BLOCK_ELEMENTS = 1 << 20
"""A block has at least so many operations, or elements of A and B to read, or of C to write: below,
handing it to a thread costs more than the thread saves."""

MAX_DEEP_ELEMENTS = 1 << 12
"""Elements of C for each thread, above which C itself is large enough to be shared."""

BLOCKS_PER_THREAD = 4
"""Blocks that each thread can expect: more than one, since no two cores run equally fast; half as
many where the blocks would become narrow."""

GOOD_BLOCK_FLOPS = 1 << 27
"""Of smaller blocks each thread gets one: for each the interpreter's lock is taken and passed on,
and whoever feeds a GPU beside the pool waits for it, too."""

ROW_QUANTUM = 16
COLUMN_QUANTUM = 32
"""Edges of blocks lie on multiples of these, the tiles of BLAS's innermost loops."""

MIN_COLUMNS = 128
"""Narrower blocks of B are read a few cache lines at a time, each from another page."""

HALVING_COST = 1.03
"""So many times as much may blocks cost that let half of the rows be taken first."""

_MOST_TERMS = 1 << 16
"""Of products that BLAS does not compute NumPy takes a nanosecond a term, the pool of threads 60
microseconds to begin: those of fewer terms are small."""

_COPY_WEIGHT = 48
"""Rows (or columns) of work that copying a block's part of B (or A) costs, measured."""


@dataclass(frozen=True, slots=True)
class Block:
    """A range of rows, columns and K: one piece of work for one thread.

    Attributes:
        row_start: First row of A and C.
        row_stop: Row behind the last one.
        column_start: First column of B and C.
        column_stop: Column behind the last one.
        depth_start: First column of A and row of B.
        depth_stop: The one behind the last; 0…K except where K is cut.
    """

    row_start: int
    row_stop: int
    column_start: int
    column_stop: int
    depth_start: int
    depth_stop: int

    @property
    def rows(self) -> slice:
        """The rows as an index."""
        return slice(self.row_start, self.row_stop)

    @property
    def columns(self) -> slice:
        """The columns as an index."""
        return slice(self.column_start, self.column_stop)

    @property
    def depth(self) -> slice:
        """The range of K as an index."""
        return slice(self.depth_start, self.depth_stop)

    @property
    def elements(self) -> int:
        """Elements of C that the block holds."""
        return (self.row_stop - self.row_start) * (self.column_stop - self.column_start)


def cut_range(size: int, parts: int, quantum: int) -> list[tuple[int, int]]:
    """Cut 0…size into at most `parts` ranges of nearly equal length on multiples of `quantum`."""
    quanta = -(-size // quantum)
    parts = max(1, min(parts, quanta))
    edges = [min(size, quanta * part // parts * quantum) for part in range(parts + 1)]
    return list(pairwise(edges))


def cut_blocks(
    m: int,
    n: int,
    k: int,
    *,
    threads: int,
    max_elements: int | None = None,
    likely_rows: int | None = None,
) -> list[Block]:
    """Cut C[m,n] into blocks that cover it once, each with the whole of K.

    Few rows against a wide B become column blocks, few columns become row blocks, and a product
    too small to share stays one block.

    Args:
        m: Rows of A and C, at least 1.
        n: Columns of B and C, at least 1.
        k: Columns of A and rows of B, at least 1.
        threads: Threads that will take the blocks.
        max_elements: The most elements of a block, where each needs a temporary of its own.
        likely_rows: Where these are a part of the rows of a product: how many it is likely to have.
            The blocks are then as large as its (`cut_strips`), if these occupy all threads.

    Returns:
        The blocks, row by row.
    """
    strips = cut_strips(likely_rows, n, k, threads, max_elements) if likely_rows else None
    if strips is not None and 4 * m >= 3 * strips.round_rows:
        row_parts = round(max(m, strips.round_rows) / strips.rows)
        column_parts = strips.column_parts
    else:
        row_parts, column_parts = choose_grid(m, n, k, threads, max_elements)
    columns = cut_range(n, column_parts, COLUMN_QUANTUM)
    return [
        Block(*rows, *column, 0, k)
        for rows in cut_range(m, row_parts, ROW_QUANTUM)
        for column in columns
    ]


@dataclass(frozen=True, slots=True)
class Strips:
    """How the rows of a product are cut that are handed out part by part.

    Attributes:
        rows: Rows of a strip, one row of blocks.
        column_parts: Blocks of a strip.
        round_rows: Rows of the strips that have a block for each thread.
    """

    rows: int
    column_parts: int
    round_rows: int


def cut_strips(m: int, n: int, k: int, threads: int, max_elements: int | None = None) -> Strips:
    """Cut a product into strips of which each thread gets two blocks, if these are worth it.

    Args:
        m: Rows of A and C, at least 1.
        n: Columns of B and C, at least 1.
        k: Columns of A and rows of B, at least 1.
        threads: Threads that will take the blocks.
        max_elements: The most elements of a block, or None.
    """
    row_parts, column_parts = choose_grid(m, n, k, threads, max_elements, least_rounds=2)
    if row_parts == 1 and column_parts >= 2 * threads:  # as many blocks, of half the rows
        halves = 2, -(-column_parts // 2)
        cost = _rate_block(m, -(-n // column_parts))
        if _rate_block(-(-m // 2), -(-n // halves[1])) <= HALVING_COST * cost:
            row_parts, column_parts = halves
    rows = -(-m // row_parts)
    strips = min(row_parts, -(-threads // column_parts))
    return Strips(rows, column_parts, min(m, rows * strips))


def cut_depth(m: int, n: int, k: int, *, threads: int) -> list[Block]:
    """Cut K for a product whose C is too small to occupy the threads; [] where that is no gain.

    Args:
        m: Rows of A and C.
        n: Columns of B and C.
        k: Columns of A and rows of B.
        threads: Threads that will take the parts.

    Returns:
        Blocks that all cover the whole of C, each with a part of K; their products are to be
        added up.
    """
    # Each part writes and reads a C of its own, which must be little beside its part of A and B.
    if m * n > MAX_DEEP_ELEMENTS * threads or k < 16 * threads * m:
        return []
    parts = min(threads, _count_useful(m, n, k))
    if parts < 2:
        return []
    return [Block(0, m, 0, n, *depth) for depth in cut_range(k, parts, ROW_QUANTUM)]


@lru_cache(maxsize=1024)
def choose_grid(
    m: int, n: int, k: int, threads: int, max_elements: int | None, *, least_rounds: int = 1
) -> tuple[int, int]:
    """Choose into how many ranges the rows and the columns are cut.

    Args:
        m: Rows of C.
        n: Columns of C.
        k: Length of the dot products.
        threads: Threads that will take the blocks.
        max_elements: The most elements of a block, or None.
        least_rounds: Blocks for each thread, at least, if they are worth its while.

    Returns:
        (ranges of rows, ranges of columns).
    """
    flops = 2 * m * n * k
    needed = max(-(-flops // MAX_BLOCK_FLOPS), -(-m * n // max_elements) if max_elements else 1)
    useful = _count_useful(m, n, k)
    rounds = BLOCKS_PER_THREAD
    if max_elements is None:  # and so no temporary that should stay small
        rounds = min(rounds, max(least_rounds, flops // (GOOD_BLOCK_FLOPS * threads)))
    enough = max(needed, min(useful, min(rounds, 2) * threads))
    wanted = max(needed, min(useful, rounds * threads))
    most_rows, most_columns = -(-m // ROW_QUANTUM), -(-n // MIN_COLUMNS)

    def rate(grid: tuple[int, int]) -> tuple[bool, float]:
        row_parts, column_parts = grid
        blocks = row_parts * column_parts
        block_rows, block_columns = -(-m // row_parts), -(-n // column_parts)
        work = _rate_block(block_rows, block_columns)
        return blocks < enough, -(-blocks // threads) * work

    grids = [
        (rows, min(most_columns, -(-wanted // rows)))
        for rows in range(1, min(wanted, most_rows) + 1)
    ]
    return min(grids, key=rate)


def can_share(m: int, n: int, k: int) -> bool:
    """Whether a product is worth more than one thread's while."""
    return _count_useful(m, n, k) > 1


@lru_cache(maxsize=1024)
def is_small(m: int, n: int, k: int, dtype: str) -> bool:
    """Whether NumPy, in the calling thread, is the CPU's fastest way to a product.

    Args:
        m: Rows of the product.
        n: Columns of the product.
        k: Columns of A and rows of B.
        dtype: NumPy's name of the element type.
    """
    return not can_share(m, n, k) if dtype in ("float32", "float64") else m * n * k <= _MOST_TERMS


def _rate_block(rows: int, columns: int) -> int:
    """What a block costs, in elements of C that are multiplied meanwhile."""
    return (rows + _COPY_WEIGHT) * (columns + _COPY_WEIGHT)


def _count_useful(m: int, n: int, k: int) -> int:
    """The most blocks that are each worth a thread's while."""
    elements = max((m + n) * k, m * n)
    return max(1, 2 * m * n * k // MIN_BLOCK_FLOPS, elements // MIN_BLOCK_ELEMENTS)
