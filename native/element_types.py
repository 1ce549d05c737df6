"""Element types: what NumPy does not know about bfloat16 and complex numbers.

Importing this module lets NumPy find bfloat16 by name, from ml_dtypes. To NumPy it is no float: its
kind is "V", that of raw bytes, and `numpy.finfo` refuses it.
"""

from typing import Any, Final

import ml_dtypes
import numpy as np
from numpy.typing import DTypeLike

BFLOAT16: Final = np.dtype(ml_dtypes.bfloat16)
"""Upper half of a float32: its range, with eight bits of precision."""

BLAS_DTYPES: Final = frozenset(
    np.dtype(name) for name in ("float32", "float64", "complex64", "complex128")
)
"""Element types that BLAS multiplies as they are."""

HALVES: Final = frozenset((np.dtype(np.float16), BFLOAT16))
"""Element types of two bytes whose products are summed in float32."""


def find_dtype(name: DTypeLike) -> np.dtype[Any]:
    """The element type of that name."""
    return np.dtype(name)


def find_accumulator(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The element type in which products are summed: float32 for float16 and bfloat16."""
    return np.dtype(np.float32) if dtype in HALVES else dtype


def round_factor(factor: float, dtype: np.dtype[Any]) -> float:
    """A factor as products use it: a whole number for integers, else rounded to the type of sums.

    A factor too small for that type becomes 0; then what it multiplies is not read.
    """
    if is_integer(dtype):
        return int(factor)
    if factor in (0, 1):
        return factor
    with np.errstate(all="ignore"):
        return float(find_accumulator(dtype).type(factor).real)


def is_integer(dtype: np.dtype[Any]) -> bool:
    """Whether products are exact, modulo 2 to the power of the type's bits."""
    return dtype.kind in "iu"


_find_bfloat_limits: Any = ml_dtypes.finfo


def find_limits(dtype: np.dtype[Any]) -> Any:
    """Precision and range of a type of floats, or of the parts of a complex number."""
    return _find_bfloat_limits(dtype) if dtype == BFLOAT16 else np.finfo(dtype)
