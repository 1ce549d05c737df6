"""NumPy, CuPy and PyTorch, each as most users write it."""

import importlib
from typing import ClassVar

import numpy as np

from benchmarks.common.operands import Matrix, Operands
from benchmarks.host.baselines.baseline import Baseline


class PlainNumpy(Baseline):
    """`numpy.matmul` into an existing array, with all threads of its BLAS.

    For the CPU page-locked memory is like any other, so it takes part with pageable memory only.
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


class PlainCupy(Baseline):
    """`asnumpy(asarray(a) @ asarray(b))`; with page-locked memory, into the existing C.

    Args:
        fills_c: Whether the product is written into the existing C from pageable memory, too.
    """

    name = "cupy"

    def __init__(self, *, fills_c: bool = False) -> None:
        importlib.import_module("cupy")  # not to find only later that it is missing
        self._fills_c = fills_c

    def multiply(self, operands: Operands) -> Matrix:
        """A·B."""
        import cupy

        product = cupy.asarray(operands.a) @ cupy.asarray(operands.b)
        out = operands.c if self._fills_c or operands.memory == "pinned" else None
        return np.asarray(cupy.asnumpy(product, out=out))

    def release(self) -> None:
        """Empty CuPy's pools."""
        empty_pools()


def empty_pools() -> None:
    """Give back the memory that CuPy keeps."""
    import cupy

    cupy.get_default_memory_pool().free_all_blocks()
    cupy.get_default_pinned_memory_pool().free_all_blocks()


class PyTorch(Baseline):
    """`(a.cuda(non_blocking=True) @ b.cuda(non_blocking=True)).cpu()`, without TF32.

    With page-locked memory the product is copied into the existing C.

    Args:
        fills_c: Whether it is from pageable memory, too.
    """

    name = "torch"

    def __init__(self, *, fills_c: bool = False) -> None:
        import torch

        self._fills_c = fills_c
        if not torch.cuda.is_available():
            raise ImportError("this PyTorch has no CUDA")
        torch.set_float32_matmul_precision("highest")  # no TF32
        torch.from_numpy(np.zeros(1, np.float32)).cuda()

    def multiply(self, operands: Operands) -> Matrix:
        """A·B."""
        import torch

        a = torch.from_numpy(operands.a).cuda(non_blocking=True)
        b = torch.from_numpy(operands.b).cuda(non_blocking=True)
        product = torch.matmul(a, b)
        if operands.memory == "pageable" and not self._fills_c:
            return np.asarray(product.cpu().numpy())
        torch.from_numpy(operands.c).copy_(product, non_blocking=True)
        torch.cuda.synchronize()
        return operands.c

    def release(self) -> None:
        """Empty PyTorch's cache of GPU memory."""
        import torch

        torch.cuda.empty_cache()
