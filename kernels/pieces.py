"""How rows lie in buffers on the device, and the pieces in which matrices are staged."""

from collections.abc import Iterator
from typing import Final

_LINE_BYTES: Final = 128
_VECTOR_BYTES: Final = 16


def pitch_items(columns: int, item_bytes: int) -> int:
    """Elements from one row of a buffer on the device to the next.

    Rows begin where the kernels can load vectors, long ones at cache lines. Very short rows are
    not padded: the padding travels too.
    """
    row_bytes = columns * item_bytes
    if row_bytes < 4 * _VECTOR_BYTES:
        return columns
    alignment = _VECTOR_BYTES if row_bytes < _VECTOR_BYTES * _LINE_BYTES else _LINE_BYTES
    return -(-row_bytes // alignment) * alignment // item_bytes


def cut_pieces(
    rows: range, columns: range, *, item_bytes: int, piece_bytes: int
) -> Iterator[tuple[range, range]]:
    """Cut a part of a matrix into pieces of at most `piece_bytes`, whole rows where one fits.

    Args:
        rows: Rows of the part.
        columns: Columns of the part.
        item_bytes: Bytes of an element.
        piece_bytes: The most bytes of a piece when its rows are padded as `pitch_items` does;
            at least a cache line.

    Yields:
        (rows, columns) of each piece.
    """
    row_bytes = pitch_items(len(columns), item_bytes) * item_bytes
    height = max(1, piece_bytes // row_bytes)
    width = len(columns)
    if row_bytes > piece_bytes:
        width = piece_bytes // _LINE_BYTES * _LINE_BYTES // item_bytes
    for top in range(rows.start, rows.stop, height):
        for left in range(columns.start, columns.stop, width):
            bottom, right = min(top + height, rows.stop), min(left + width, columns.stop)
            yield range(top, bottom), range(left, right)
