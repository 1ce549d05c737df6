"""Which baselines run on this machine."""

from typing import Final

from benchmarks.host.baselines.baseline import Baseline, LocalMatmul
from benchmarks.host.baselines.libraries import PlainCupy, PlainNumpy, PyTorch
from benchmarks.host.baselines.several_cupy import SeveralCupy
from benchmarks.host.baselines.streamed_cupy import StreamedCupy

OURS: Final = "wavetrim"
GPU_ALONE: Final = "wavetrim-gpu"
"""wavetrim with F = 0."""

NUMPY: Final = "numpy"
OTHERS: Final = ("cupy", "cupy-streams", "torch", "cupy-gpus", NUMPY)


def list_baselines(gpus: int) -> list[Baseline]:
    """Wavetrim and its peers on this number of GPUs.

    Raises:
        ImportError: A peer is missing.
    """
    if gpus == 0:
        return [PlainNumpy(), LocalMatmul(OURS)]
    if gpus == 1:
        return [
            *(PlainNumpy(), PlainCupy(), StreamedCupy(), PyTorch()),
            *(LocalMatmul(OURS), LocalMatmul(GPU_ALONE, f=0)),
        ]
    return [PlainNumpy(), SeveralCupy(gpus), LocalMatmul(OURS)]
