"""Arrays as operands: what a caller gives, its element type, its shape, and the product's shape."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .npy import check_dtype

Shape = tuple[int, ...]

_FUNCTION_HOOKS: Final = ("__array_ufunc__", "__array_function__")
"""Methods by which an object says itself how NumPy's functions treat it."""

_HOOKS: Final = (*_FUNCTION_HOOKS, "__array_wrap__", "__array_finalize__")
"""The same, and those by which a subclass of NumPy's array passes on what it has beside it."""


def read_operands(
    a: ArrayLike, b: ArrayLike, c: ArrayLike | None, *, beta: float
) -> tuple[list[NDArray[Any]], Shape]:
    """Read the operands of αA·B + βC by NumPy's rules.

    Returns:
        A and B, and C if it is read, in one element type, vectors as a row or a column; and the
        shape of the product, as of `numpy.matmul`: a vector's dimension is dropped.
    """
    left, right = read_array("a", a), read_array("b", b)
    shape = find_shape(left.shape, right.shape)
    rows = left.reshape(1, -1) if left.ndim == 1 else left
    columns = right.reshape(-1, 1) if right.ndim == 1 else right
    matrices = [rows, columns]
    if beta != 0:
        if c is None:
            raise ValueError(f"c is None; it must be a matrix, because beta is {beta}, not 0")
        addend = read_array("c", c)
        if addend.shape != shape:
            raise ValueError(f"c has the shape {addend.shape}; it must have {shape}")
        matrices.append(addend.reshape(find_shape(rows.shape, columns.shape)))
    return promote(matrices), shape


def find_shape(a: Shape, b: Shape) -> Shape:
    """Shape of A·B, as of `numpy.matmul`; three dimensions are a stack of matrices."""
    for name, shape in (("a", a), ("b", b)):
        if not 1 <= len(shape) <= 3:
            raise ValueError(f"{name} has {len(shape)} dimensions; it must have 1 to 3")
    if a[-1] != b[-2:][0]:
        raise ValueError(f"b has {b[-2:][0]} rows; it must have {a[-1]}, as a is {a}")
    try:
        stack = np.broadcast_shapes(a[:-2], b[:-2])
    except ValueError:
        limit = f"it must have {a[0]}, as a is {a}"
        raise ValueError(f"b has {b[0]} matrices; {limit}") from None
    return (*stack, *a[:-1][-1:], *b[1:][-1:])


def check_operands(known: Mapping[str, tuple[Shape, str]]) -> None:
    """Refuse operands of a job that cannot be multiplied, as far as they are known."""
    for name, (shape, _) in known.items():
        check_dimensions(name, shape)
    if "a" in known and "b" in known:
        product = find_shape(known["a"][0], known["b"][0])
        if "c" in known and known["c"][0] != product:
            raise ValueError(f"c has the shape {known['c'][0]}; it must have {product}")
    if len({dtype for _, dtype in known.values()}) > 1:
        named = ", ".join(f"{dtype} of {name}" for name, (_, dtype) in known.items())
        raise ValueError(f"the dtypes are {named}; they must be the same")


def check_dimensions(name: str, shape: Shape) -> None:
    """Refuse what is neither a matrix nor a stack of matrices."""
    if len(shape) not in (2, 3):
        raise ValueError(f"{name} has {len(shape)} dimensions; it must have 2, or 3 as a stack")


def read_array(name: str, value: Any) -> NDArray[Any]:
    """What a caller gives as an array, by NumPy's rules; arrays of other libraries by DLPack.

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


def promote(arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Arrays in their common element type, by NumPy's rules."""
    try:
        dtype = np.result_type(*arrays).newbyteorder("=")
    except TypeError as error:
        names = " and ".join(dict.fromkeys(array.dtype.name for array in arrays))
        raise ValueError(
            f"the dtypes are {names}; NumPy must have a common one for them"
        ) from error
    check_dtype(dtype)
    return [
        array if array.dtype.newbyteorder("=") == dtype else array.astype(dtype) for array in arrays
    ]


def check_out(out: NDArray[Any], shape: Shape, dtype: np.dtype[Any]) -> None:
    """Refuse an array that cannot take a matrix of this shape and element type as it is."""
    check_writable(out)
    if out.shape != shape:
        raise ValueError(f"out has the shape {out.shape}; it must have {shape}")
    if out.dtype != dtype:
        raise ValueError(f"out has the dtype {out.dtype}; it must have {dtype}")


def check_writable(out: NDArray[Any]) -> None:
    """Refuse what is no array, has a mask, or is read-only."""
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
