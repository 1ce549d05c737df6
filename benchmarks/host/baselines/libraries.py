"""NumPy, CuPy and PyTorch, each as most users write it, into an existing C."""

import importlib

import numpy as np

from benchmarks.common.operands import Matrix, Operands
from benchmarks.host.baselines.baseline import Baseline


class PlainNumpy(Baseline):
    """`numpy.matmul(a, b, out=c)`, with all threads of its BLAS."""

    name = "numpy"

    def multiply(self, operands: Operands) -> Matrix:
        """A·B into C."""
        return np.matmul(operands.a, operands.b, out=operands.c)


class PlainCupy(Baseline):
    """`asnumpy(asarray(a) @ asarray(b), out=c)`."""

    name = "cupy"

    def __init__(self) -> None:
        importlib.import_module("cupy")  # fails at once if it is missing

    def multiply(self, operands: Operands) -> Matrix:
        """A·B into C."""
        import cupy

        product = cupy.asarray(operands.a) @ cupy.asarray(operands.b)
        return np.asarray(cupy.asnumpy(product, out=operands.c))


class PyTorch(Baseline):
    """`c.copy_(a.cuda(non_blocking=True) @ b.cuda(non_blocking=True))`, without TF32."""

    name = "torch"

    def __init__(self) -> None:
        import torch

        if not torch.cuda.is_available():
            raise ImportError("this PyTorch has no CUDA")
        torch.set_float32_matmul_precision("highest")  # no TF32
        torch.from_numpy(np.zeros(1, np.float32)).cuda()

    def multiply(self, operands: Operands) -> Matrix:
        """A·B into C."""
        import torch

        a = torch.from_numpy(operands.a).cuda(non_blocking=True)
        b = torch.from_numpy(operands.b).cuda(non_blocking=True)
        torch.from_numpy(operands.c).copy_(torch.matmul(a, b), non_blocking=True)
        torch.cuda.synchronize()
        return operands.c
