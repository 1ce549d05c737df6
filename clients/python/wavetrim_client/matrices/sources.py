"""What a caller may give as a matrix: a matrix of the service, a file, an array."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from ..records import Matrix
from ..wire.request import Body
from .bodies import make_array_body, make_file_body
from .element_types import check_dtype, read_dtype
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
        return make_file_body(source)
    array = read_array("array", source)
    if array.ndim != 2:
        raise ValueError(f"array has {array.ndim} dimensions; it must have 2")
    check_dtype(array.dtype)
    return make_array_body(array)


def check_shapes(sources: dict[str, Source]) -> None:
    """Refuse operands that cannot be multiplied, as far as they are known, before one is sent.

    Raises:
        ValueError: Their shapes or element types do not fit.
        OSError: A file cannot be read.
    """
    known = {name: found for name, one in sources.items() if (found := _describe_known(one))}
    shapes = {name: shape for name, (shape, _) in known.items()}
    for name, shape in shapes.items():
        if len(shape) != 2:
            raise ValueError(f"{name} has {len(shape)} dimensions; it must have 2")
    if "a" in shapes and "b" in shapes and shapes["a"][1] != shapes["b"][0]:
        limit = f"it must have {shapes['a'][1]}, as a is {shapes['a']}"
        raise ValueError(f"b has {shapes['b'][0]} rows; {limit}")
    for side, of in ((0, "a"), (1, "b")):
        if "c" in shapes and of in shapes and shapes["c"][side] != shapes[of][side]:
            raise ValueError(f"c has the shape {shapes['c']}; {of} is {shapes[of]}")
    types = {name: dtype for name, (_, dtype) in known.items()}
    if len({*types.values()}) > 1:
        named = ", ".join(f"{dtype} of {name}" for name, dtype in types.items())
        raise ValueError(f"the dtypes are {named}; they must be the same")


def _describe_known(source: Source) -> tuple[tuple[int, ...], str] | None:
    """Shape and element type of an operand; None for an id, or a file that the service refuses."""
    if isinstance(source, str):
        return None
    if isinstance(source, Matrix):
        return source.shape, source.dtype
    if isinstance(source, Path):
        make_file_body(source)
        try:
            mapped = np.load(source, mmap_mode="r")
            return mapped.shape, read_dtype(mapped.dtype).name
        except (ValueError, EOFError, AttributeError):
            return None
    array = read_array("array", source)
    return array.shape, array.dtype.name


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
