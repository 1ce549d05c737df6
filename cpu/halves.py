"""Widens float16 eight elements at a time, if the CPU can; NumPy widens one at a time."""

from pathlib import Path
from typing import Final

import numpy as np

from wavetrim.cpu.library import CPU_LIBRARY
from wavetrim.native.library import load_library
from wavetrim.native.plain import Matrix

_LEAST_ELEMENTS: Final = 1 << 16
"""Fewest elements for which C is used. Chosen: the library may have to be compiled."""


def widen_halves(halves: Matrix, cache_dir: Path | None) -> Matrix:
    """A matrix of float16 in any layout as float32, stored by rows without gaps.

    `cache_dir` is the folder of compiled code; None to use only a library compiled ahead of time.
    """
    halves, wide = np.ascontiguousarray(halves), np.empty(halves.shape, np.float32)
    is_small = halves.size < _LEAST_ELEMENTS
    library, done = None if is_small else load_library(CPU_LIBRARY, cache_dir), 0
    if library is not None:
        done = library.widen_halves(halves.ctypes.data, halves.size, wide.ctypes.data)
    wide.ravel()[done:] = halves.ravel()[done:]
    return wide
