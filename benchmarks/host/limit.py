"""The limit of GPUs alone: their arithmetic and their links at the rates of the same run."""

import statistics
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.common.operands import Operands
from wavetrim.kernels.catalog import find_kernel
from wavetrim.kernels.timing.joint_rates import measure_joint_rates
from wavetrim.kernels.timing.seconds import DeviceProduct

_LINK_BYTES: Final = 2**29
_LINK_TURNS: Final = 9
_LAUNCHES: Final = 5


class Limit:
    """The least times of the first GPUs alone; their links are measured once.

    Args:
        gpus: How many.
    """

    def __init__(self, gpus: int) -> None:
        self._gpus = gpus
        self._rates = measure_joint_rates(range(gpus), _LINK_BYTES, _LINK_TURNS)

    def find_seconds(self, operands: Operands) -> float:
        """The longest of cuBLAS with operands on the GPU, copying in and copying out.

        Each operand crosses the links once, from page-locked memory.
        """
        in_seconds = (operands.a.nbytes + operands.b.nbytes) / self._rates.in_bytes_per_second
        out_seconds = operands.c.nbytes / self._rates.out_bytes_per_second
        return max(measure_compute(operands) / self._gpus, in_seconds, out_seconds)


def measure_compute(operands: Operands) -> float:
    """Median seconds of cuBLAS at a product, its operands on the first GPU."""
    import cupy

    with TemporaryDirectory(prefix="wavetrim-") as folder:
        product = DeviceProduct(operands.a, operands.b, device_index=0, cache_dir=Path(folder))
        seconds = product.time_launches(find_kernel("cublas", operands.dtype), _LAUNCHES)
    del product
    cupy.get_default_memory_pool().free_all_blocks()
    return statistics.median(seconds)
