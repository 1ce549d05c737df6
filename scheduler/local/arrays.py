"""Operands as NumPy takes them: their element types, factors and checks."""

from cmath import isfinite
from collections.abc import Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wavetrim.cpu.operands import find_blas_strides
from wavetrim.native.element_types import find_limits, is_integer, round_factor
from wavetrim.scheduler.errors import ProblemError
from wavetrim.scheduler.local.stacks import StackProblem
from wavetrim.scheduler.problem import ITEM_BYTES

Array: TypeAlias = NDArray[Any]

DTYPE_NAMES: Final = {np.dtype(name): name for name in ITEM_BYTES}
"""Supported element types → their names."""

FUNCTION_HOOKS: Final = ("__array_ufunc__", "__array_function__")
"""Methods by which an object says itself how NumPy's functions treat it."""

HOOKS: Final = (*FUNCTION_HOOKS, "__array_wrap__", "__array_finalize__")
"""The same, and those by which a subclass of NumPy's array keeps what it has besides elements."""


def read_array(name: str, value: Any) -> Array:
    """An operand as an array, by NumPy's rules.

    Args:
        name: Its name in a refusal.
        value: An array, whatever `numpy.asarray` reads, or an array of another library in host
            memory (DLPack).

    Raises:
        ProblemError: It is none of these, or means more than its elements do.
    """
    if type(value) is np.ndarray:
        return value
    if type(value) is not np.memmap:
        check_meaning(name, value, HOOKS if isinstance(value, np.ndarray) else FUNCTION_HOOKS)
    if hasattr(value, "__cuda_array_interface__"):
        raise ProblemError(name, _name_type(value), "in host memory, not in a GPU's")
    is_foreign = hasattr(value, "__dlpack__") and not hasattr(value, "__array__")
    try:
        array: Array = np.from_dlpack(value) if is_foreign else np.asarray(value)
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise ProblemError(name, _name_type(value), f"an array of numbers: {reason}") from error
    if array.dtype.kind not in "biufcV":
        shown = None if value is None else _name_contents(value, array)
        raise ProblemError(name, shown, "an array of numbers")
    return array


def check_meaning(name: str, value: object, hooks: Sequence[str]) -> None:
    """Check that an operand means no more than its elements: a mask, a unit, names of columns.

    Args:
        name: Its name in a refusal.
        value: The operand.
        hooks: Methods by which it would change what NumPy's functions do.

    Raises:
        ProblemError: It means more, and the product would lose that.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise ProblemError(name, "a masked array", "an array without a mask, such as x.filled(0)")
    plain = [(hook, getattr(np.ndarray, hook)) for hook in hooks]
    if any(getattr(type(value), hook, usual) is not usual for hook, usual in plain):
        limit = (
            "a plain array, as of numpy.asarray(x): what it has beside its elements would be lost"
        )
        raise ProblemError(name, _name_type(value), limit)


def _name_type(value: object) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def _name_contents(value: object, array: Array) -> str:
    """The type of what was given, and of its first element that is no number."""
    if array.ndim == 0 or array.size == 0:
        return _name_type(value)
    odd = (one for one in array.flat if not isinstance(one, int | float | complex))
    return f"{_name_type(value)} of {_name_type(next(odd, array.flat[0]))}"


def find_dtype(a: np.dtype[Any], b: np.dtype[Any], c: ArrayLike | None) -> np.dtype[Any]:
    """The element type of the result by NumPy's rules.

    Raises:
        ProblemError: It is not supported.
    """
    if a is b and c is None and a in DTYPE_NAMES:
        return a
    parts = [a, b] if c is None or _is_plain_number(c) else [a, b, read_array("c", c).dtype]
    try:
        dtype = np.result_type(*parts)
        if _is_plain_number(c):
            dtype = _promote_by_number(dtype, c)
        dtype = dtype.newbyteorder("=")
    except TypeError:
        dtype = np.dtype(object)
    if dtype not in DTYPE_NAMES:
        named = " and ".join(dict.fromkeys(map(str, parts)))
        raise ProblemError("dtype", named, f"such that the product is in {', '.join(ITEM_BYTES)}")
    return dtype


def convert(array: Array, dtype: np.dtype[Any]) -> Array:
    """The operand with aligned elements of a type; a copy only if necessary."""
    if array.dtype is dtype and array.flags.aligned:
        return array
    if array.dtype == dtype and array.flags.aligned:
        return array.view(dtype)
    return array.astype(dtype)


def read_factor(name: str, value: Any, dtype: np.dtype[Any]) -> float:
    """A factor as a Python number, as products use it (`round_factor`).

    Raises:
        ProblemError: It is not a real number, or for integers not a whole number.
    """
    if type(value) is float and value in (0, 1):
        return value
    is_float = not is_integer(dtype)
    if is_float and type(value) is float:
        return round_factor(value, dtype)
    number = value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value
    if isinstance(number, int | float | np.integer | np.floating | Fraction):
        try:
            if is_float:
                return round_factor(float(number), dtype)
            factor = int(number)
            if factor == number:
                return factor
        except (ValueError, OverflowError):  # NaN and infinities are no whole numbers
            pass
    kind = "a real number" if is_float else f"a whole number for matrices of {dtype}"
    raise ProblemError(name, value, kind)


def read_addend(
    c: ArrayLike | None, problem: StackProblem, beta: float, dtype: np.dtype[Any]
) -> Array | None:
    """C broadcast to the shape of the result, without a copy; None if β is 0.

    Args:
        c: An array, or a number of Python's, which has no element type of its own.
        problem: The sizes of the product.
        beta: Factor of C.
        dtype: Element type of the result.

    Raises:
        ProblemError: Its shape does not fit, the element type cannot hold the number, or it is
            missing although β is not 0.
    """
    if c is None:
        if beta != 0:
            raise ProblemError("beta", beta, "0 where c is left out")
        return None
    if _is_plain_number(c):
        return np.broadcast_to(_read_number(c, dtype), problem.shape) if beta != 0 else None
    addend = read_array("c", c)
    if addend.shape != problem.shape:
        try:
            addend = np.broadcast_to(addend, problem.shape)
        except ValueError:
            limit = f"one that broadcasts to the result's, {problem.shape}"
            raise ProblemError("shape of c", addend.shape, limit) from None
    return addend if beta != 0 else None


def _is_plain_number(c: object) -> bool:
    """Whether C is a number of Python's; some of NumPy's are of these classes, too."""
    return isinstance(c, int | float | complex) and not isinstance(c, np.generic)


def _promote_by_number(dtype: np.dtype[Any], c: Any) -> np.dtype[Any]:
    """The element type of a sum with a number of Python's, which has none of its own."""
    if isinstance(c, complex):
        return np.result_type(dtype, 1j)
    # NumPy does not know that bfloat16 holds real numbers.
    is_other = isinstance(c, float) and dtype.kind != "V"
    return np.result_type(dtype, 1.0) if is_other else dtype


def _read_number(c: Any, dtype: np.dtype[Any]) -> Array:
    """A number of Python's as an element of a type.

    Raises:
        ProblemError: The type cannot hold it.
    """
    is_whole = is_integer(dtype)
    kind = int if is_whole else complex if dtype.kind == "c" else float
    with suppress(OverflowError), np.errstate(all="ignore"):
        element = np.asarray(kind(c), dtype)
        if is_whole or np.isfinite(element) == isfinite(c):
            return element
    raise ProblemError("c", c, _describe_numbers(dtype))


def _describe_numbers(dtype: np.dtype[Any]) -> str:
    """The numbers that are elements of a type, in words."""
    if is_integer(dtype):
        limits = np.iinfo(dtype)
        return f"a whole number from {limits.min} to {limits.max} for matrices of {dtype}"
    kind = "a number" if dtype.kind == "c" else "a real number"
    return f"{kind} of at most {find_limits(dtype).max} for matrices of {dtype}"


def check_out(out: Array, problem: StackProblem, dtype: np.dtype[Any]) -> None:
    """Check that the result can be written into an array.

    Raises:
        ProblemError: It is not a writable array of the result's shape and element type.
    """
    if not isinstance(out, np.ndarray):
        raise ProblemError("out", type(out).__name__, "a NumPy array")
    if type(out) is not np.ndarray:
        check_meaning("out", out, FUNCTION_HOOKS)
    if out.shape != problem.shape:
        raise ProblemError("shape of out", out.shape, f"{problem.shape}, the result's")
    if out.dtype != dtype:
        raise ProblemError("dtype of out", str(out.dtype), f"{dtype}, the result's")
    if not out.flags.writeable:
        raise ProblemError("out", "read-only", "writable")


def can_write(
    out: Array, problem: StackProblem, left: Array, right: Array, addend: Array | None
) -> bool:
    """Whether the product may be computed directly in `out`.

    Not if `out` shares memory with an operand, or if BLAS cannot write its layout. A stack is
    written as one tall matrix, so its rows must follow each other in memory.
    """
    if np.may_share_memory(out, left) or np.may_share_memory(out, right):
        return False
    if addend is not None and addend is not out and np.may_share_memory(out, addend):
        return False
    if type(out) is not np.ndarray or out.size == 0:
        return False
    if out.flags.carray:
        return True
    return out.ndim == 2 and not problem.stack and find_blas_strides(out) is not None
