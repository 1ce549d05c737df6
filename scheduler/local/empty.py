"""New arrays for products: `wavetrim.empty`."""

import operator
from collections.abc import Callable
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from wavetrim.scheduler.errors import ProblemError
from wavetrim.scheduler.local.process import find_machine
from wavetrim.scheduler.options import MachineOptions
from wavetrim.scheduler.problem import ITEM_BYTES, name_dtype

Array: TypeAlias = NDArray[Any]

_MOST_AXES: Final = 64
_MOST_BYTES: Final = int(np.iinfo(np.intp).max)
"""The largest array that NumPy can describe."""


def make_array(read_options: Callable[[], MachineOptions], shape: Any, dtype: DTypeLike) -> Array:
    """A new row-major array, in page-locked memory if there is a GPU; see `wavetrim.empty`.

    Args:
        read_options: Called for the machine's options where it is not there yet.
        shape: Its shape, or the length of its only axis.
        dtype: Its element type.

    Raises:
        DeviceFailure: The memory cannot be page-locked.
        ProblemError: The shape is not one, has a negative side or is larger than any array's, or
            the element type is not one of `ITEM_BYTES`.
    """
    name = name_dtype(dtype)
    if name not in ITEM_BYTES:
        raise ProblemError("dtype", name, f"one of {', '.join(ITEM_BYTES)}")
    sides = _read_shape(shape)
    _check_size(sides, name)
    # A forked process whose parent used the GPU has none: its arrays are ordinary.
    if not find_machine(read_options, needs_gpu=False).has_gpu:
        return np.empty(sides, name)
    from wavetrim.kernels.transfer.pinned import pin_array

    return pin_array(sides, name)


def _read_shape(shape: Any) -> tuple[int, ...]:
    try:
        sides = tuple(shape) if np.iterable(shape) else (shape,)
        whole = tuple(operator.index(side) for side in sides)
    except TypeError:
        whole = (-1,)
    if min(whole, default=0) < 0:
        raise ProblemError("shape", shape, "a whole number from 0, or several of them")
    return whole


def _check_size(sides: tuple[int, ...], dtype: str) -> None:
    """Refuse a shape that no array of NumPy's has, be there memory for it or not."""
    if len(sides) > _MOST_AXES:
        raise ProblemError("axes of shape", len(sides), f"at most {_MOST_AXES}")
    most = _MOST_BYTES // ITEM_BYTES[dtype]
    if prod(side for side in sides if side) > most:
        limit = f"one of at most {most} elements of {dtype}, sides of 0 left out"
        raise ProblemError("shape", sides, limit)
