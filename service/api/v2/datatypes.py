"""The protocol's names of element types, and elements in JSON."""

from collections.abc import Iterator
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wavetrim.native.element_types import find_dtype, find_limits, is_integer
from wavetrim.scheduler.problem import ITEM_BYTES
from wavetrim.service.errors import FieldProblem

Array = NDArray[Any]

DATATYPES: Final[dict[str, str]] = {
    "FP16": "float16",
    "BF16": "bfloat16",
    "FP32": "float32",
    "FP64": "float64",
    "INT8": "int8",
    "INT16": "int16",
    "INT32": "int32",
    "INT64": "int64",
    "UINT8": "uint8",
    "UINT16": "uint16",
    "UINT32": "uint32",
    "UINT64": "uint64",
}
"""NumPy's names, by the protocol's: all element types except complex ones, which it lacks."""

NAMES: Final[dict[str, str]] = {dtype: name for name, dtype in DATATYPES.items()}
"""The protocol's names, by NumPy's."""

MOST_JSON_ELEMENTS: Final = 2**18
"""The most elements of a result that is written as JSON; chosen: that takes 60 ms (AMD EPYC)."""

assert set(NAMES) == {name for name in ITEM_BYTES if not name.startswith("complex")}


def read_elements(field: str, data: object, shape: tuple[int, ...], dtype: str) -> Array:
    """Elements of a tensor from JSON numbers, nested like its shape or flat in row-major order.

    Raises:
        FieldProblem: Their number is wrong, or one is no number or not within the element type.
    """
    kind = find_dtype(dtype)
    integral = is_integer(kind)
    try:
        found = _gather(data, integral=integral)
    except ValueError as error:  # lists of different lengths
        raise FieldProblem(field, "lists of different lengths", f"{shape} numbers") from error
    if found is None:
        odd = _find_odd(data, integral=integral)
        raise FieldProblem(field, odd, f"{NAMES[dtype]} numbers")
    if found.size != prod(shape) or found.shape not in (shape, (found.size,)):
        raise FieldProblem(field, f"shape {found.shape}", f"{shape}, or flat")
    if integral:
        limits = np.iinfo(dtype)
        least, most = found.min(initial=0), found.max(initial=0)
        if least < limits.min or most > limits.max:
            odd = least if least < limits.min else most
            raise FieldProblem(
                field, int(odd), f"within {limits.min}…{limits.max} ({NAMES[dtype]})"
            )
        return found.astype(dtype).reshape(shape)
    with np.errstate(over="ignore"):
        elements = found.astype(kind)
    lost = np.isinf(elements) & np.isfinite(found)
    if lost.any():
        largest = float(find_limits(kind).max)
        raise FieldProblem(
            field, float(found[lost][0]), f"at most {largest} in size ({NAMES[dtype]})"
        )
    return elements.reshape(shape)


def list_elements(elements: Array) -> list[float]:
    """Elements of a result for JSON: flat, in row-major order.

    Raises:
        FieldProblem: One of them is not finite, for which JSON has no word.
    """
    flat = elements.reshape(-1)
    if not is_integer(flat.dtype) and not np.isfinite(flat).all():
        odd = float(flat[~np.isfinite(flat)][0])
        raise FieldProblem(
            "C", odd, "asked for as binary data (binary_data): JSON has no such number"
        )
    listed: list[float] = flat.tolist()
    return listed


def _gather(data: object, *, integral: bool) -> Array | None:
    """Nested lists of numbers as an array; None if one is no number, or not a whole one.

    Whole numbers that no type of NumPy's holds together stay objects of Python.
    """
    if not isinstance(data, list):
        return None
    found = np.array(data)
    is_plain = found.dtype.kind in ("iu" if integral else "iuf")
    if is_plain and not (found == found.astype(bool)).any():
        return found  # no 0 and no 1, which NumPy makes of truth values
    # NumPy makes floats of whole numbers if only some are above 2**63, and objects of larger ones.
    exact = np.array(data, object)
    if not set(map(type, exact.flat)) <= ({int} if integral else {int, float}):
        return None
    if is_plain or integral:
        return found if is_plain else exact
    try:
        return exact.astype(float)
    except OverflowError:
        return None


def _find_odd(data: object, *, integral: bool) -> object:
    """The first leaf of nested lists that is no number of the kind, or else the largest."""
    leaves = list(_list_leaves(data))
    wanted = (int,) if integral else (int, float)
    odd = [one for one in leaves if type(one) not in wanted]
    return odd[0] if odd else max(leaves, key=abs, default=data)


def _list_leaves(data: object) -> Iterator[Any]:
    for one in data if isinstance(data, list) else [data]:
        if isinstance(one, list):
            yield from _list_leaves(one)
        else:
            yield one
