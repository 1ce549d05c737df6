"""Arrays as operands of a product: their element type, their shapes, and the product's shape."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .element_types import check_dtype

_FUNCTION_HOOKS: Final = ("__array_ufunc__", "__array_function__")
"""Methods by which an object says itself how NumPy's functions treat it."""

_HOOKS: Final = (*_FUNCTION_HOOKS, "__array_wrap__", "__array_finalize__")
"""The same, and those by which a subclass of NumPy's array passes on what it has beside it."""


@dataclass(frozen=True, slots=True)
class Operands:
    """The operands of αA·B + βC as matrices of one element type.

    Attributes:
        matrices: A and B, and C if it is read.
        shape: Shape of the product, as of `numpy.matmul`: a vector's dimension is dropped.
        dtype: The operands' common element type.
    """

    matrices: tuple[NDArray[Any], ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def read_operands(a: ArrayLike, b: ArrayLike, c: ArrayLike | None, *, beta: float) -> Operands:
    """Read operands by NumPy's rules: vectors become a row or a column, types are promoted.

    Raises:
        ValueError: They cannot be multiplied.
    """
    left, right = read_array("a", a), read_array("b", b)
    for name, array in (("a", left), ("b", right)):
        if array.ndim not in (1, 2):
            raise ValueError(f"{name} has {array.ndim} dimensions; it must have 1 or 2")
    shape = left.shape[:-1] + right.shape[1:]
    rows = left.reshape(1, -1) if left.ndim == 1 else left
    columns = right.reshape(-1, 1) if right.ndim == 1 else right
    if rows.shape[1] != columns.shape[0]:
        limit = f"it must have {rows.shape[1]}, as a is {left.shape}"
        raise ValueError(f"b has {columns.shape[0]} rows; {limit}")
    matrices = [rows, columns]
    if beta != 0:
        if c is None:
            raise ValueError(f"c is None; it must be given, as beta is {beta}")
        addend = read_array("c", c)
        if addend.shape != shape:
            raise ValueError(f"c has the shape {addend.shape}; it must have {shape}")
        matrices.append(addend.reshape(rows.shape[0], columns.shape[1]))
    same = promote(matrices)
    return Operands(same, shape, same[0].dtype.newbyteorder("="))


def read_array(name: str, value: Any) -> NDArray[Any]:
    """What a caller gives as an array, by NumPy's rules; arrays of other libraries by DLPack.

    Args:
        name: Its name in a refusal.
        value: The array.

    Raises:
        ValueError: It is none in host memory, or means more than its elements do: a mask, a unit.
    """
    if type(value) is np.ndarray:
        return value
    kind = _name_type(value)
    if type(value) is not np.memmap:
        _check_meaning(name, value, _HOOKS if isinstance(value, np.ndarray) else _FUNCTION_HOOKS)
    if hasattr(value, "__cuda_array_interface__"):
        raise ValueError(f"{name} is {kind!r}; it must be in host memory, not in a GPU's")
    is_foreign = hasattr(value, "__dlpack__") and not hasattr(value, "__array__")
    try:
        array: NDArray[Any] = np.from_dlpack(value) if is_foreign else np.asarray(value)
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(f"{name} is {kind!r}; it must be an array of numbers: {reason}") from error
    if array.dtype.kind not in "biufcV":
        shown = None if value is None else _name_contents(kind, array)
        raise ValueError(f"{name} is {shown!r}; it must be an array of numbers")
    return array


def promote(arrays: Sequence[NDArray[Any]]) -> tuple[NDArray[Any], ...]:
    """Arrays in their common element type, by NumPy's rules.

    Raises:
        ValueError: They have no common type, or the service does not multiply it.
    """
    try:
        dtype = np.result_type(*arrays).newbyteorder("=")
    except TypeError as error:
        names = " and ".join(dict.fromkeys(array.dtype.name for array in arrays))
        raise ValueError(
            f"the dtypes are {names}; NumPy must have a common one for them"
        ) from error
    check_dtype(dtype)
    return tuple(
        array if array.dtype.newbyteorder("=") == dtype else array.astype(dtype) for array in arrays
    )


def check_out(out: NDArray[Any], shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Refuse an array that cannot take a matrix of this shape and element type as it is.

    Raises:
        ValueError: It is no array, its shape or element type differs, or it cannot be written to.
    """
    check_writable(out)
    if out.shape != shape:
        raise ValueError(f"out has the shape {out.shape}; it must have {shape}")
    if out.dtype != dtype:
        raise ValueError(f"out has the dtype {out.dtype}; it must have {dtype}")


def check_writable(out: NDArray[Any]) -> None:
    """Refuse an array that cannot be written to.

    Raises:
        ValueError: It is no array, has a mask, or is read-only.
    """
    if not isinstance(out, np.ndarray):
        name = type(out).__name__
        raise ValueError(f"out is {name!r}; it must be a NumPy array")  # noqa: TRY004 # as in process
    _check_meaning("out", out, _FUNCTION_HOOKS)
    if not out.flags.writeable:
        raise ValueError("out is read-only; it must be an array that can be written to")


def _check_meaning(name: str, value: object, hooks: Sequence[str]) -> None:
    if isinstance(value, np.ma.MaskedArray):
        limit = "an array without a mask, such as x.filled(0)"
        raise ValueError(f"{name} is a masked array; it must be {limit}")  # noqa: TRY004 # as in process
    plain = [(hook, getattr(np.ndarray, hook)) for hook in hooks]
    if any(getattr(type(value), hook, usual) is not usual for hook, usual in plain):
        limit = (
            "a plain array, as of numpy.asarray(x): what it has beside its elements would be lost"
        )
        raise ValueError(f"{name} is {_name_type(value)!r}; it must be {limit}")


def _name_type(value: object) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def _name_contents(kind: str, array: NDArray[Any]) -> str:
    """The type of what was given, and of its first element that is no number."""
    if array.ndim == 0 or array.size == 0:
        return kind
    odd = (one for one in array.flat if not isinstance(one, int | float | complex))
    return f"{kind} of {_name_type(next(odd, array.flat[0]))}"
