"""The layout of a matrix in a range of memory: its strides, and whether it fits.

Sizes, offsets and strides are not trusted. They are Python integers, which cannot overflow: with
fixed-width integers a huge matrix could pass for a small one.
"""

from typing import Final

from wavetrim.scheduler.errors import SlabError

_MOST_BYTES: Final = 2**62
"""More than NumPy counts in an array, even in one without elements."""


def find_strides(
    rows: int, columns: int, item_bytes: int, *, fortran_order: bool = False
) -> tuple[int, int]:
    """Row and column stride of a matrix without gaps, in bytes."""
    return (item_bytes, rows * item_bytes) if fortran_order else (columns * item_bytes, item_bytes)


def check_layout(
    size_bytes: int,
    *,
    offset_bytes: int,
    rows: int,
    columns: int,
    item_bytes: int,
    strides_bytes: tuple[int, int] | None = None,
    fortran_order: bool = False,
) -> tuple[int, int]:
    """Check that all elements lie within the memory, aligned and without overlap.

    Rows follow each other, or columns do, with or without gaps between them and their elements. So
    both strides are positive.

    Args:
        size_bytes: Size of the memory.
        offset_bytes: Offset of the first element.
        rows: At least 0.
        columns: At least 0.
        item_bytes: Size of an element.
        strides_bytes: Row and column stride; None for a matrix without gaps. The stride of a single
            row or column is ignored.
        fortran_order: Whether a matrix without gaps is column-major.

    Returns:
        Row and column stride, the given or the implied ones.

    Raises:
        SlabError: The check fails; the error names the field and its limit.
    """
    for name, count in (("rows", rows), ("columns", columns)):
        if count < 0:
            raise SlabError(name, count, "at least 0")
        if not (rows and columns) and count * item_bytes >= _MOST_BYTES:
            raise SlabError(name, count, "one that arrays without elements have, too")
    if strides_bytes is None or not (rows and columns):
        strides = find_strides(rows, columns, item_bytes, fortran_order=fortran_order)
    else:
        strides = _check_strides(strides_bytes, rows, columns, item_bytes)
    span_bytes = 0
    if rows and columns:
        span_bytes = (rows - 1) * strides[0] + (columns - 1) * strides[1] + item_bytes
    last = size_bytes - span_bytes
    if last < 0:
        limit = f"that of a matrix of at most {size_bytes} bytes; it spans {span_bytes}"
        raise SlabError("offset_bytes", offset_bytes, limit)
    if not 0 <= offset_bytes <= last or offset_bytes % item_bytes:
        raise SlabError("offset_bytes", offset_bytes, f"a multiple of {item_bytes} in 0…{last}")
    return strides


def _check_strides(
    strides_bytes: tuple[int, int], rows: int, columns: int, item_bytes: int
) -> tuple[int, int]:
    """Check that strides are positive and elements do not overlap."""
    down, across = strides_bytes
    if columns == 1:
        across = item_bytes
    if rows == 1:
        down = columns * across
    for stride in (down, across):
        if stride < item_bytes or stride % item_bytes:
            limit = f"positive multiples of {item_bytes}, the size of an element"
            raise SlabError("strides_bytes", strides_bytes, limit)
    if rows > 1 and columns > 1:
        line = min(down, across) * ((columns if across <= down else rows) - 1) + item_bytes
        if max(down, across) < line:
            limit = f"at least {line} for the longer one, so that no element covers another"
            raise SlabError("strides_bytes", strides_bytes, limit)
    return down, across
