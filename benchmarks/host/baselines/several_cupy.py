"""CuPy on several GPUs: each multiplies its part of the rows, driven by its own thread."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from benchmarks.common.operands import Matrix, Operands
from benchmarks.host.baselines.baseline import Baseline
from benchmarks.host.baselines.streamed_cupy import StreamedCupy, cut_panels


class SeveralCupy(Baseline):
    """`StreamedCupy` on each of the first GPUs, with all of B on each."""

    name = "cupy-gpus"

    def __init__(self, gpus: int) -> None:
        self._streamed = [StreamedCupy() for _ in range(gpus)]
        self._threads = ThreadPoolExecutor(gpus)

    def multiply(self, operands: Operands) -> Matrix:
        """A·B into C."""
        m = operands.shape[0]
        parts = [
            replace(operands, a=operands.a[rows], c=operands.c[rows])
            for rows in cut_panels(m, -(-m // len(self._streamed)))
        ]
        for part in [self._threads.submit(self._multiply, *one) for one in enumerate(parts)]:
            part.result()
        return operands.c

    def _multiply(self, device: int, part: Operands) -> None:
        from cupy.cuda import Device

        with Device(device):
            self._streamed[device].multiply(part)
