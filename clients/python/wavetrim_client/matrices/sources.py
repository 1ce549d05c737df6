"""What a caller may give as a matrix: a matrix of the service, a file, an array."""

from collections.abc import Callable
from pathlib import Path

from numpy.typing import ArrayLike

from ..records import Matrix
from ..wire.request import Body
from .bodies import ArrayBody, FileBody
from .element_types import check_dtype
from .operands import promote, read_array

MatrixName = Matrix | str
"""A matrix of the service, or its id."""

Source = MatrixName | Path | ArrayLike
"""An operand of a job: a matrix of the service or its id (a str), a .npy file (a Path), or anything
that NumPy reads as an array."""

Uploaded = Callable[[str, int, int], None]
"""Receives the name of an operand ("a", "b", "c"), the bytes sent, and the bytes in all."""


def name_matrix(matrix: MatrixName) -> str:
    """The id of a matrix.

    Raises:
        ValueError: It is neither a matrix of the service nor an id.
    """
    if isinstance(matrix, str):
        return matrix
    if isinstance(matrix, Matrix):
        return matrix.id
    name = type(matrix).__name__
    raise ValueError(f"matrix is {name!r}; it must be a Matrix of the service or its id")


def describe_source(source: Path | ArrayLike) -> Body:
    """The body of the request that stores a matrix.

    Raises:
        ValueError: It is not two-dimensional, has a mask, or the service does not multiply its
            element type.
        OSError: The file cannot be read.
    """
    if isinstance(source, Path):
        return FileBody.find(source)
    array = read_array("array", source)
    if array.ndim != 2:
        raise ValueError(f"array has {array.ndim} dimensions; it must have 2")
    check_dtype(array.dtype)
    return ArrayBody(array)


def promote_arrays(sources: dict[str, Source]) -> dict[str, Source]:
    """The operands, with all arrays among them in their common element type."""
    arrays = {
        name: read_array(name, source)
        for name, source in sources.items()
        if not isinstance(source, Matrix | str | Path)
    }
    if not arrays:
        return sources
    return {**sources, **dict(zip(arrays, promote([*arrays.values()]), strict=True))}
