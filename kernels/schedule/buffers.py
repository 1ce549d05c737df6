"""Device buffers of a product, within a limit of memory.

The first of three layouts that fits is taken:

1. All of B stays on the device.
2. B is divided into groups of columns. One group at a time is on the device, and A streams through
   once for each group.
3. K is cut as well, and partial products are added up in C's buffer.

A resident B needs no buffers.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import itemgetter
from typing import Final, NamedTuple

from wavetrim.kernels.errors import OperandError
from wavetrim.kernels.gemm.terms import count_term_bytes
from wavetrim.kernels.schedule.panels import PanelProblem, divide_up
from wavetrim.kernels.tiling import Tile

MIN_DEPTH: Final = 256  # columns of A
"""Least length of a part of K, if memory allows. Chosen: each part reads and writes C again."""

_SLOT_ALIGNMENT_BYTES: Final = 512  # a multiple of 256, which terms need
_LINE_BYTES: Final = 128
_VECTOR_BYTES: Final = 16


class Buffers(NamedTuple):
    """Number (slots) and size of the buffers of each operand.

    Attributes:
        rows: Rows of a buffer of A or C.
        depth: Columns of a buffer of A, rows of a buffer of B.
        columns: Columns of a buffer of B or C.
        slots: Buffers of A, and as many of C.
        b_slots: Buffers of B.
        item_bytes: Bytes of an element.
        term_bytes: Memory for the bfloat16 terms of a buffer of A and one of B.
    """

    rows: int
    depth: int
    columns: int
    slots: int
    b_slots: int
    item_bytes: int
    term_bytes: int

    @property
    def a_bytes(self) -> int:
        """Bytes of one buffer of A."""
        return find_pitched_bytes(self.rows, self.depth, self.item_bytes)

    @property
    def b_bytes(self) -> int:
        """Bytes of one buffer of B."""
        return find_pitched_bytes(self.depth, self.columns, self.item_bytes)

    @property
    def c_bytes(self) -> int:
        """Bytes of one buffer of C."""
        return find_pitched_bytes(self.rows, self.columns, self.item_bytes)

    @property
    def total_bytes(self) -> int:
        """Bytes of all buffers together."""
        b_bytes = self.b_slots * self.b_bytes
        return self.slots * (self.a_bytes + self.c_bytes) + b_bytes + self.term_bytes


def find_pitched_bytes(rows: int, columns: int, item_bytes: int) -> int:
    """Bytes of a matrix on the device, with aligned rows."""
    return _align(rows * pitch_items(columns, item_bytes) * item_bytes)


def pitch_items(columns: int, item_bytes: int) -> int:
    """Leading dimension of a buffer on the device, in elements.

    Rows begin at multiples of 16 bytes, long rows at cache lines. Very short rows are not padded,
    because padding is copied, too.
    """
    row_bytes = columns * item_bytes
    if row_bytes < 4 * _VECTOR_BYTES:
        return columns
    alignment = _VECTOR_BYTES if row_bytes < _VECTOR_BYTES * _LINE_BYTES else _LINE_BYTES
    return -(-row_bytes // alignment) * alignment // item_bytes


def fit_buffers(
    problem: PanelProblem, panel_rows: int, first_rows: int, gpu_memory_bytes: int
) -> Buffers:
    """Choose buffers of at most `gpu_memory_bytes` together.

    Args:
        problem: The product.
        panel_rows: Rows of a panel, if memory allows.
        first_rows: Rows of the first panel, likewise.
        gpu_memory_bytes: Limit of memory.

    Raises:
        OperandError: Not even one tile fits; the message names the smallest `gpu_memory_bytes`.
    """
    for buffers in _list_whole(problem, panel_rows, first_rows):
        if buffers.total_bytes <= gpu_memory_bytes:
            return buffers
    for list_layouts in (_list_columns, _list_depths):
        best = min(
            list_layouts(problem, panel_rows, gpu_memory_bytes), key=itemgetter(0), default=None
        )
        if best is not None:
            return best[1]
    rows, columns = min(problem.m, problem.tile_m), min(problem.n, problem.tile_n)
    whole = _size(problem, rows, problem.k, problem.n, slots=2, b_slots=1)
    tiles = _pair(problem, rows, min(problem.k, problem.tile_k), columns)
    least = min(whole.total_bytes, tiles.total_bytes)
    raise OperandError(
        f"gpu_memory_bytes is {gpu_memory_bytes}; it must be at least {least} to hold two "
        "tiles of each operand"
    )


def _list_whole(problem: PanelProblem, panel_rows: int, first_rows: int) -> Iterator[Buffers]:
    """Buffers for all of B, and for 6 or 3 panels of A and C, else 2, down to a tile high.

    More than 2, because other panels are computed while a tall first panel is copied out.
    """
    tall = max(panel_rows, first_rows)
    for rows, slots in ((tall, 6), (tall, 3), (panel_rows, 3)):
        yield _size(problem, rows, problem.k, problem.n, slots=slots, b_slots=1)
    for rows in _halve(panel_rows, problem.tile_m):
        yield _size(problem, rows, problem.k, problem.n, slots=2, b_slots=1)


def _list_columns(
    problem: PanelProblem, panel_rows: int, limit_bytes: int
) -> Iterator[tuple[int, Buffers]]:
    """Buffers for some columns of B and all of K, after their rank: the passes over A."""
    tiles = problem.tiles_per_tile_row

    def take(rows: int, passes: int) -> Buffers:
        columns = min(problem.n, divide_up(tiles, passes) * problem.tile_n)
        return _pair(problem, rows, problem.k, columns)

    for rows in _halve(panel_rows, problem.tile_m):
        passes = 1 + bisect_left(
            range(1, tiles + 1), True, key=lambda some: take(rows, some).total_bytes <= limit_bytes
        )
        if passes <= tiles:
            yield passes, take(rows, passes)


def _list_depths(
    problem: PanelProblem, panel_rows: int, limit_bytes: int
) -> Iterator[tuple[tuple[bool, int], Buffers]]:
    """Buffers for a part of K, after their rank: is it very short, and what is copied in."""
    m, n, k, tile_k = problem.m, problem.n, problem.k, problem.tile_k
    for rows in _halve(panel_rows, problem.tile_m):
        for columns in _halve(n, problem.tile_n):
            tiles = bisect_right(
                range(tile_k, k + tile_k, tile_k), limit_bytes,
                key=lambda depth: _pair(problem, rows, min(depth, k), columns).total_bytes,
            )  # fmt: skip
            if tiles:
                depth = min(k, tiles * tile_k)
                copied = m * divide_up(n, columns) + n * divide_up(m, rows)
                yield (depth < min(k, MIN_DEPTH), copied), _pair(problem, rows, depth, columns)


def _pair(problem: PanelProblem, rows: int, depth: int, columns: int) -> Buffers:
    """Double buffers of each operand."""
    return _size(problem, rows, depth, columns, slots=2, b_slots=2)


def _size(
    problem: PanelProblem, rows: int, depth: int, columns: int, *, slots: int, b_slots: int
) -> Buffers:
    """Buffers of this size and number, with memory for terms if the kernel makes them."""
    if problem.b_resident:
        b_slots = 0
    term_bytes = 0
    if problem.term_item_bytes:
        tile = Tile(problem.tile_m, problem.tile_n, problem.tile_k)
        term_bytes = count_term_bytes(tile, problem.term_item_bytes, rows, columns, depth)
    return Buffers(rows, depth, columns, slots, b_slots, problem.item_bytes, _align(term_bytes))


def _align(size_bytes: int) -> int:
    return -(-size_bytes // _SLOT_ALIGNMENT_BYTES) * _SLOT_ALIGNMENT_BYTES


def _halve(size: int, tile: int) -> list[int]:
    """`size`, then its halves in whole tiles, down to one tile."""
    choices = [size]
    while choices[-1] > tile:
        choices.append(max(1, choices[-1] // 2 // tile) * tile)
    return choices
