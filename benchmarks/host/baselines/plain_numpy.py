"""NumPy, with all threads of its BLAS."""

from typing import ClassVar

import numpy as np

from benchmarks.common.operands import Matrix, Operands
from benchmarks.host.baselines.baseline import Baseline


class PlainNumpy(Baseline):
    """`numpy.matmul` into an array that is there already.

    To the CPU page-locked memory is like any other, so it takes part with pageable memory only.
    """

    name = "numpy"
    memories: ClassVar = ("pageable",)
    turns: ClassVar = 5
    warms_up: ClassVar = False

    @property
    def wakes_blas(self) -> bool:
        """Always."""
        return True

    def multiply(self, operands: Operands) -> Matrix:
        """A·B into C."""
        return np.matmul(operands.a, operands.b, out=operands.c)
