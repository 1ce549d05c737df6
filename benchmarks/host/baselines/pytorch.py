"""PyTorch, without TF32."""

import numpy as np

from benchmarks.common.operands import Matrix, Operands
from benchmarks.host.baselines.baseline import Baseline


class PyTorch(Baseline):
    """`(a.cuda(non_blocking=True) @ b.cuda(non_blocking=True)).cpu()`.

    With page-locked memory the product is copied into the C that is there.
    """

    name = "torch"

    def __init__(self) -> None:
        import torch

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
        if operands.memory == "pageable":
            return np.asarray(product.cpu().numpy())
        torch.from_numpy(operands.c).copy_(product, non_blocking=True)
        torch.cuda.synchronize()
        return operands.c

    def release(self) -> None:
        """Empty PyTorch's cache of GPU memory."""
        import torch

        torch.cuda.empty_cache()
