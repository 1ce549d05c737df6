"""New arrays for products: `wavetrim.empty`."""

import operator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from wavetrim.scheduler.errors import ProblemError
from wavetrim.scheduler.local.machine import LocalMachine
from wavetrim.scheduler.problem import ITEM_BYTES

Array: TypeAlias = NDArray[Any]


def make_array(machine: LocalMachine, shape: Any, dtype: DTypeLike) -> Array:
    """A new array; see `wavetrim.empty`.

    Raises:
        ProblemError: The shape is not one or has a negative side, or the element type is not one of
            `ITEM_BYTES`.
    """
    name = name_dtype(dtype)
    if name not in ITEM_BYTES:
        raise ProblemError("dtype", name, f"one of {', '.join(ITEM_BYTES)}")
    return machine.make_array(_read_shape(shape), name)


def name_dtype(dtype: DTypeLike) -> str:
    """NumPy's name of an element type; `str` of anything else."""
    try:
        return np.dtype(dtype).name
    except TypeError:
        return str(dtype)


def _read_shape(shape: Any) -> tuple[int, ...]:
    try:
        sides = tuple(shape) if np.iterable(shape) else (shape,)
        whole = tuple(operator.index(side) for side in sides)
    except TypeError:
        whole = (-1,)
    if min(whole, default=0) < 0:
        raise ProblemError("shape", shape, "a whole number from 0, or several of them")
    return whole
