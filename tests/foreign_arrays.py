"""Arrays of other libraries, and what is none: operands as a caller may give them."""

from pathlib import Path
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_array


class ByDlpack:
    """An array of another library in host memory."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return 1, 0


class OfAGpu(ByDlpack):
    """An array in the memory of a GPU."""

    def __dlpack__(self, **_):
        raise BufferError("it is in a GPU's memory")

    def __dlpack_device__(self):
        return 2, 0


class ByCuda:
    """As CuPy's, Numba's and PyTorch's arrays of a GPU."""

    __cuda_array_interface__: ClassVar = {"shape": (2, 2), "typestr": "<f4", "data": (0, False)}

    def __array__(self, *_, **__):
        raise TypeError("implicit conversion")


class Tensor:
    """As PyTorch's on a GPU, or one that needs its gradient."""

    def __array__(self, *_, **__):
        raise RuntimeError("Can't call numpy() on Tensor that requires grad.\nMore lines.")


class Lazy:
    """As arrays of Dask, and frames of pandas: NumPy asks them."""

    def __array__(self, *_, **__):
        return np.eye(2)

    def __array_ufunc__(self, *_, **__):
        return "lazy"


class OptedOut(Lazy):
    """An object that no function of NumPy takes."""

    __array_ufunc__ = None


class ByFunction:
    """An object that overrides NumPy's functions."""

    def __array__(self, *_, **__):
        return np.eye(2)

    def __array_function__(self, *_, **__):
        return "own"


class Quantity(np.ndarray):
    """An array with a unit, as astropy has them."""

    def __array_finalize__(self, source):
        self.unit = getattr(source, "unit", "m")


NUMBERS = "it must be an array of numbers"
MEANING = "it must be a plain array, as of numpy.asarray(x): what it has beside its elements would"

GIVEN = {
    "a sparse matrix": (csr_array(np.eye(2)), f"csr_array'; {NUMBERS}"),
    "None": (None, f"is None; {NUMBERS}"),
    "text": ("A.npy", f"is 'str'; {NUMBERS}"),
    "a path": (Path("A.npy"), f"Path'; {NUMBERS}"),
    "strings": (["x", "y"], f"is 'list of numpy.str_'; {NUMBERS}"),
    "an element that is none": ([[1.0, None]], f"is 'list of NoneType'; {NUMBERS}"),
    "ragged lists": ([[1.0], [1.0, 2.0]], f"is 'list'; {NUMBERS}: setting an array element"),
    "dates": ([np.datetime64("2026-01-01")], "is 'list of"),
    "a tensor": (Tensor(), "requires grad."),
    "an array of a GPU": (ByCuda(), "ByCuda'; it must be in host memory, not in a GPU's"),
    "DLPack of a GPU": (OfAGpu(np.eye(2)), f"OfAGpu'; {NUMBERS}: "),
    "lazy": (Lazy(), f"Lazy'; {MEANING}"),
    "opted out": (OptedOut(), f"OptedOut'; {MEANING}"),
    "own functions": (ByFunction(), f"ByFunction'; {MEANING}"),
    "a unit": (np.eye(2).view(Quantity), f"Quantity'; {MEANING}"),
    "a numpy.matrix": (np.eye(2).view(np.matrix), f"'numpy.matrix'; {MEANING}"),
    "records": (np.zeros(2, [("x", "f4")]).view(np.recarray), "recarray'; "),
}
"""What is no operand, and the end of the refusal, which begins with the operand's name."""
