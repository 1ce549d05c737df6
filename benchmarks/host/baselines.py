"""Ways to multiply matrices in host memory: wavetrim's, and others as most users write them.

Each multiplies A·B, complete, into an existing C.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

import wavetrim
from benchmarks.common.operands import Operands
from benchmarks.host.streamed_cupy import SeveralCupy, StreamedCupy

OURS: Final = "wavetrim"
GPU_ALONE: Final = "wavetrim-gpu"
"""wavetrim with F = 0."""

NUMPY: Final = "numpy"
OTHERS: Final = ("cupy", "cupy-streams", "torch", "cupy-gpus", NUMPY)


@dataclass(frozen=True, slots=True)
class Baseline:
    """One way to multiply matrices in host memory.

    Attributes:
        name: Its name in rows.
        multiply: Computes A·B in `operands.c`.
        f: Rows of C that the CPU computes by wavetrim's plan; None without a plan.
    """

    name: str
    multiply: Callable[[Operands], object]
    f: int | Literal["auto"] | None = None

    def find_f(self, operands: Operands) -> int | None:
        """F of the plan as it is now."""
        if self.f is None:
            return None
        m, n, k = operands.shape
        return wavetrim.plan(m, n, k, dtype=operands.dtype, memory=operands.memory, f=self.f).f


def list_baselines(gpus: int) -> list[Baseline]:
    """Wavetrim and its peers on this number of GPUs; an ImportError names a peer that is missing.

    NumPy uses all threads of its BLAS.
    """
    numpy = Baseline(NUMPY, lambda of: np.matmul(of.a, of.b, out=of.c))
    ours = _make_ours(OURS, "auto")
    if gpus == 0:
        return [numpy, ours]
    import cupy

    if gpus > 1:
        return [numpy, Baseline("cupy-gpus", SeveralCupy(gpus).multiply), ours]

    def multiply_by_cupy(of: Operands) -> None:
        cupy.asnumpy(cupy.asarray(of.a) @ cupy.asarray(of.b), out=of.c)

    return [
        *(numpy, Baseline("cupy", multiply_by_cupy)),
        Baseline("cupy-streams", StreamedCupy().multiply),
        *(_make_torch(), ours, _make_ours(GPU_ALONE, 0)),
    ]


def _make_ours(name: str, f: int | Literal["auto"]) -> Baseline:
    return Baseline(name, lambda of: wavetrim.matmul(of.a, of.b, out=of.c, f=f), f)


def _make_torch() -> Baseline:
    """PyTorch without TF32."""
    import torch

    if not torch.cuda.is_available():
        raise ImportError("this PyTorch has no CUDA")
    torch.set_float32_matmul_precision("highest")  # no TF32
    torch.from_numpy(np.zeros(1, np.float32)).cuda()

    def multiply(of: Operands) -> None:
        a, b = (torch.from_numpy(one).cuda(non_blocking=True) for one in (of.a, of.b))
        torch.from_numpy(of.c).copy_(torch.matmul(a, b), non_blocking=True)
        torch.cuda.synchronize()

    return Baseline("torch", multiply)
