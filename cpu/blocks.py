"""Blocks of C for a pool of threads: the rows and columns that one thread computes at a time.

A block of r rows and s columns costs 2 r s K operations. Before these, BLAS packs r K elements of A
and K s elements of B into its own layout. Many small blocks keep all threads busy to the end; few
square blocks pack little. `choose_grid` weighs the two.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

MAX_BLOCK_FLOPS = 1 << 33
"""Largest block, in operations: about a tenth of a second, so that a product can be cancelled.
Chosen, not measured."""

MIN_BLOCK_FLOPS = 1 << 25
MIN_BLOCK_ELEMENTS = 1 << 20
"""Smallest block worth a thread: in operations, or in elements of A and B to read or of C to write.
Chosen; no measurement is recorded."""

MAX_DEEP_ELEMENTS = 1 << 12
"""Largest C, in elements a thread, for which K is cut instead of C. Chosen, not measured."""

BLOCKS_PER_THREAD = 4
"""Blocks for each thread: more than one, because cores differ in speed; half as many where blocks
would become narrow. Chosen, not measured."""

GOOD_BLOCK_FLOPS = 1 << 27
"""Operations of a block below which each thread gets one block only: taking another costs the
interpreter's lock, which the thread that feeds a GPU wants, too. Chosen; no measurement is
recorded."""

ROW_QUANTUM = 16
COLUMN_QUANTUM = 32
"""Edges of blocks are multiples of these: tiles of BLAS's innermost loops."""

MIN_COLUMNS = 128
"""Fewest columns of a block: narrower blocks read a few cache lines of B from each page. Chosen,
not measured."""

HALVING_COST = 1.03
"""Largest increase of a block's cost accepted for strips of half the rows. Chosen, not measured."""

_MOST_TERMS = 1 << 16
"""Largest product without BLAS, in terms (M N K), that the calling thread computes alone. NumPy
takes about 1 ns a term, the thread pool 60 µs to begin; the machine is not recorded."""

_COPY_WEIGHT = 48
"""Cost of packing a block's part of B (or A), in rows (or columns) of work. Measured; the machine
is not recorded."""


@dataclass(frozen=True, slots=True)
class Block:
    """Ranges of rows, columns and K that one thread computes at a time.

    Attributes:
        row_start: First row of A and C.
        row_stop: Row after the last.
        column_start: First column of B and C.
        column_stop: Column after the last.
        depth_start: First column of A and row of B.
        depth_stop: The one after the last; the range is 0…K unless K is cut.
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

    @property
    def elements(self) -> int:
        """Elements of C in the block."""
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
        max_elements: Largest block in elements, where each block needs a temporary; None for no
            limit.
        likely_rows: Rows that the whole product is likely to have, where `m` is only a part of
            them. Blocks are then as large as those of the whole (`cut_strips`), if `m` rows occupy
            all threads.

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
    """Strips of rows, for a product whose rows are handed out part by part.

    Attributes:
        rows: Rows of a strip; a strip is one row of blocks.
        column_parts: Blocks in a strip.
        round_rows: Rows of as many strips as give each thread a block.
    """

    rows: int
    column_parts: int
    round_rows: int


def cut_strips(m: int, n: int, k: int, threads: int, max_elements: int | None = None) -> Strips:
    """Cut a product into strips that give each thread two blocks, if blocks stay large enough.

    Args:
        m: Rows of A and C, at least 1.
        n: Columns of B and C, at least 1.
        k: Columns of A and rows of B, at least 1.
        threads: Threads that will take the blocks.
        max_elements: Largest block in elements, or None.
    """
    row_parts, column_parts = choose_grid(m, n, k, threads, max_elements, least_rounds=2)
    if row_parts == 1 and column_parts >= 2 * threads:  # the same number of blocks, half as high
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
    # Each part writes and reads a C of its own, which must be small compared with its A and B.
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
    """Choose into how many ranges to cut the rows and the columns.

    Args:
        m: Rows of C.
        n: Columns of C.
        k: Length of the dot products.
        threads: Threads that will take the blocks.
        max_elements: Largest block in elements, or None.
        least_rounds: Fewest blocks for each thread, if they stay large enough.

    Returns:
        (ranges of rows, ranges of columns).
    """
    flops = 2 * m * n * k
    needed = max(-(-flops // MAX_BLOCK_FLOPS), -(-m * n // max_elements) if max_elements else 1)
    useful = _count_useful(m, n, k)
    rounds = BLOCKS_PER_THREAD
    if max_elements is None:  # no temporaries that should stay small
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
    """Whether a product is large enough for more than one thread."""
    return _count_useful(m, n, k) > 1


@lru_cache(maxsize=1024)
def is_small(m: int, n: int, k: int, dtype: str) -> bool:
    """Whether NumPy in the calling thread computes a product faster than the thread pool.

    Args:
        m: Rows of the product.
        n: Columns of the product.
        k: Columns of A and rows of B.
        dtype: NumPy's name of the element type.
    """
    return not can_share(m, n, k) if dtype in ("float32", "float64") else m * n * k <= _MOST_TERMS


def _rate_block(rows: int, columns: int) -> int:
    """Cost of a block, in elements of C that could be computed in the same time."""
    return (rows + _COPY_WEIGHT) * (columns + _COPY_WEIGHT)


def _count_useful(m: int, n: int, k: int) -> int:
    """Largest number of blocks that are each large enough for a thread."""
    elements = max((m + n) * k, m * n)
    return max(1, 2 * m * n * k // MIN_BLOCK_FLOPS, elements // MIN_BLOCK_ELEMENTS)
