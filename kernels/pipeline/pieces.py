"""How rows lie in buffers on the device."""

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
