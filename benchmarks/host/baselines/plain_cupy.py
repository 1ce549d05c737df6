"""CuPy as most people write it."""

import numpy as np

from benchmarks.common.operands import Matrix, Operands
from benchmarks.host.baselines.baseline import Baseline


class PlainCupy(Baseline):
    """`asnumpy(asarray(a) @ asarray(b))`; with page-locked memory, into the C that is there."""

    name = "cupy"

    def multiply(self, operands: Operands) -> Matrix:
        """A·B."""
        import cupy

        product = cupy.asarray(operands.a) @ cupy.asarray(operands.b)
        out = operands.c if operands.memory == "pinned" else None
        return np.asarray(cupy.asnumpy(product, out=out))

    def release(self) -> None:
        """Empty CuPy's pools."""
        import cupy

        cupy.get_default_memory_pool().free_all_blocks()
        cupy.get_default_pinned_memory_pool().free_all_blocks()
