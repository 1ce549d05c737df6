"""Device buffers of a product, within a limit of memory.

The first of three layouts that fits is taken:

1. All of B stays on the device.
2. B is divided into groups of columns. One group at a time is on the device, and A streams through
   once for each group.
3. K is cut as well, and partial products are added up in C's buffer.

A resident B needs no buffers.
"""

from bisect import bisect_right
from dataclasses import dataclass
from typing import Final

from wavetrim.kernels.errors import OperandError
from wavetrim.kernels.gemm.terms import count_term_bytes
from wavetrim.kernels.schedule.panels import PanelProblem
from wavetrim.kernels.tiling import Tile

MIN_DEPTH: Final = 256  # columns of A
"""Least length of a part of K, if memory allows. Chosen: each part reads and writes C again."""

_SLOT_ALIGNMENT_BYTES: Final = 512  # a multiple of 256, which terms need
_LINE_BYTES: Final = 128
_VECTOR_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Buffers:
    """Number (slots) and size of the buffers of each operand.

    Attributes:
        rows: Rows of a buffer of A or C.
        depth: Columns of a buffer of A, rows of a buffer of B.
        columns: Columns of a buffer of B or C.
        a_slots: Buffers of A.
        b_slots: Buffers of B.
        c_slots: Buffers of C.
        item_bytes: Bytes of an element.
        term_bytes: Memory for the bfloat16 terms of a buffer of A and one of B.
    """

    rows: int
    depth: int
    columns: int
    a_slots: int
    b_slots: int
    c_slots: int
    item_bytes: int
    term_bytes: int

    @property
    def a_bytes(self) -> int:
        """Bytes of one buffer of A."""
        return self._count_bytes(self.rows, self.depth)

    @property
    def b_bytes(self) -> int:
        """Bytes of one buffer of B."""
        return self._count_bytes(self.depth, self.columns)

    @property
    def c_bytes(self) -> int:
        """Bytes of one buffer of C."""
        return self._count_bytes(self.rows, self.columns)

    @property
    def total_bytes(self) -> int:
        """Bytes of all buffers together."""
        a_bytes, b_bytes = self.a_slots * self.a_bytes, self.b_slots * self.b_bytes
        return a_bytes + b_bytes + self.c_slots * self.c_bytes + self.term_bytes

    def _count_bytes(self, rows: int, columns: int) -> int:
        return find_pitched_bytes(rows, columns, self.item_bytes)


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
    buffers = (
        _fit_whole(problem, panel_rows, first_rows, gpu_memory_bytes)
        or _fit_columns(problem, panel_rows, gpu_memory_bytes)
        or _fit_depth(problem, panel_rows, gpu_memory_bytes)
    )
    if buffers is None:
        rows, columns = min(problem.m, problem.tile_m), min(problem.n, problem.tile_n)
        whole = _size(problem, rows, problem.k, problem.n, slots=2, b_slots=1)
        tiles = _pair(problem, rows, min(problem.k, problem.tile_k), columns)
        least = min(whole.total_bytes, tiles.total_bytes)
        raise OperandError(
            f"gpu_memory_bytes is {gpu_memory_bytes}; it must be at least {least} to hold two "
            "tiles of each operand"
        )
    return buffers


def _fit_whole(
    problem: PanelProblem, panel_rows: int, first_rows: int, limit_bytes: int
) -> Buffers | None:
    """Buffers for all of B, and for 6 or 3 panels of A and C, else 2, down to a tile high.

    More than 2, because other panels are computed while a tall first panel is copied out.
    """
    tall = max(panel_rows, first_rows)
    choices = [(tall, 6), (tall, 3), (panel_rows, 3)]
    choices += [(rows, 2) for rows in _halve(panel_rows, problem.tile_m)]
    for rows, slots in choices:
        buffers = _size(problem, rows, problem.k, problem.n, slots=slots, b_slots=1)
        if buffers.total_bytes <= limit_bytes:
            return buffers
    return None


def _fit_columns(problem: PanelProblem, panel_rows: int, limit_bytes: int) -> Buffers | None:
    """Buffers for some columns of B and all of K: fewest passes over A, then the tallest panel."""
    best: tuple[int, Buffers] | None = None
    for rows in _halve(panel_rows, problem.tile_m):
        spare_bytes = limit_bytes - _pair(problem, rows, problem.k, columns=0).total_bytes
        b_rows = 0 if problem.b_resident else problem.k
        column_bytes = 2 * (b_rows + rows) * problem.item_bytes
        column_bytes += problem.k * problem.term_item_bytes
        tiles = spare_bytes // (column_bytes * problem.tile_n)
        while tiles > 0:  # padding may need a little more than the estimate
            passes = -(-problem.tiles_per_tile_row // tiles)
            columns = -(-problem.tiles_per_tile_row // passes) * problem.tile_n
            buffers = _pair(problem, rows, problem.k, min(columns, problem.n))
            if buffers.total_bytes <= limit_bytes:
                if best is None or passes < best[0]:
                    best = passes, buffers
                break
            tiles -= 1
    return best[1] if best else None


def _fit_depth(problem: PanelProblem, panel_rows: int, limit_bytes: int) -> Buffers | None:
    """Buffers for a part of K: fewest bytes to copy in, if possible without very short parts."""
    best: tuple[tuple[bool, int], Buffers] | None = None
    for rows in _halve(panel_rows, problem.tile_m):
        for columns in _halve(problem.n, problem.tile_n):
            depth = _find_depth(problem, rows, columns, limit_bytes)
            if depth == 0:
                continue
            copied = problem.m * -(-problem.n // columns) + problem.n * -(-problem.m // rows)
            rank = depth < min(problem.k, MIN_DEPTH), copied
            if best is None or rank < best[0]:
                best = rank, _pair(problem, rows, depth, columns)
    return best[1] if best else None


def _find_depth(problem: PanelProblem, rows: int, columns: int, limit_bytes: int) -> int:
    """Longest part of K, in whole tiles, that fits with these rows and columns; 0 if none does."""
    k, tile_k = problem.k, problem.tile_k

    def count_bytes(depth: int) -> int:
        return _pair(problem, rows, min(depth, k), columns).total_bytes

    tiles = bisect_right(range(tile_k, k + tile_k, tile_k), limit_bytes, key=count_bytes)
    return min(k, tiles * tile_k)


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
    return Buffers(
        rows=rows, depth=depth, columns=columns,
        a_slots=slots, b_slots=b_slots, c_slots=slots,
        item_bytes=problem.item_bytes, term_bytes=_align(term_bytes),
    )  # fmt: skip


def _align(size_bytes: int) -> int:
    return -(-size_bytes // _SLOT_ALIGNMENT_BYTES) * _SLOT_ALIGNMENT_BYTES


def _halve(size: int, tile: int) -> list[int]:
    """`size`, then its halves in whole tiles, down to one tile."""
    choices = [size]
    while choices[-1] > tile:
        choices.append(max(1, choices[-1] // 2 // tile) * tile)
    return choices
