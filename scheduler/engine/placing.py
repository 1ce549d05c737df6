"""Whether a matrix lies within a piece of memory, and where its elements are there.

Sizes, offsets and strides may come from anybody. They are Python's integers here, which never wrap
around: with the machine's a huge matrix would pass for a small one.
"""

from wavetrim.scheduler.errors import SlabError


def find_strides(
    rows: int, columns: int, item_bytes: int, *, fortran_order: bool = False
) -> tuple[int, int]:
    """The strides of a matrix whose elements lie without gaps, in bytes."""
    return (item_bytes, rows * item_bytes) if fortran_order else (columns * item_bytes, item_bytes)


def check_place(
    size_bytes: int,
    *,
    offset_bytes: int,
    rows: int,
    columns: int,
    item_bytes: int,
    strides_bytes: tuple[int, int] | None = None,
    fortran_order: bool = False,
) -> tuple[int, int]:
    """Make sure that every element lies in the memory, aligned, and in a place of its own.

    Rows lie one after the other, or columns do; there may be gaps between them, and between their
    elements. So both strides are positive, and no element covers another.

    Args:
        size_bytes: The memory's length.
        offset_bytes: Where the first element begins.
        rows: At least 1.
        columns: At least 1.
        item_bytes: Length of an element.
        strides_bytes: From one row, and from one column, to the next; None where there are no gaps.
            That of a single row or column does not matter.
        fortran_order: Without strides: whether columns lie one after the other, instead of rows.

    Returns:
        The strides, also those that were left out or do not matter.

    Raises:
        SlabError: It is not so; names what is wrong, and its limit.
    """
    for name, count in (("rows", rows), ("columns", columns)):
        if count < 1:
            raise SlabError(name, count, "at least 1")
    if strides_bytes is None:
        strides = find_strides(rows, columns, item_bytes, fortran_order=fortran_order)
    else:
        strides = _check_strides(strides_bytes, rows, columns, item_bytes)
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
    """Strides that are positive and let no element cover another."""
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
