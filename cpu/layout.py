"""How matrices lie in memory, and whether BLAS can take them as they lie."""

from wavetrim.cpu.products import Matrix


def find_blas_strides(matrix: Matrix) -> tuple[int, int] | None:
    """Bytes from one row to the next and from one column to the next, as BLAS wants them.

    Args:
        matrix: Of at least one element.

    Returns:
        One of the two is the size of an element, the other one a leading dimension: at least as
        much as a row, or a column, takes. Strides of a single row or column do not count, so they
        are chosen. None where BLAS cannot take the matrix.
    """
    (rows, columns), (down, across), item = matrix.shape, matrix.strides, matrix.itemsize
    if not matrix.flags.aligned:
        return None
    if columns == 1 or across == item:
        row = columns * item if rows == 1 else down
        if row >= columns * item and row % item == 0:
            return row, item
    if rows == 1 or down == item:
        column = rows * item if columns == 1 else across
        if column >= rows * item and column % item == 0:
            return item, column
    return None
