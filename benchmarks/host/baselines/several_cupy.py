"""CuPy on several GPUs: each streams its part of the rows, driven by a thread of its own."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from benchmarks.common.operands import Matrix, Operands
from benchmarks.host.baselines.baseline import Baseline
from benchmarks.host.baselines.streamed_cupy import StreamedCupy, cut_panels


class SeveralCupy(Baseline):
    """`StreamedCupy` on each GPU, with all of B on each."""

    name = "cupy-gpus"

    def __init__(self, devices: Sequence[int]) -> None:
        self._devices = tuple(devices)
        self._streamed = [StreamedCupy() for _ in devices]
        self._threads = ThreadPoolExecutor(len(devices))

    def prepare(self, operands: Operands, until: float) -> bool:
        """Allocate streams and buffers on each GPU."""
        for number, part in enumerate(self._cut(operands)):
            self._threads.submit(self._prepare, number, part, until).result()
        return True

    def multiply(self, operands: Operands) -> Matrix:
        """A·B into C."""
        parts = enumerate(self._cut(operands))
        for part in [self._threads.submit(self._multiply, *one) for one in parts]:
            part.result()
        return operands.c

    def release(self) -> None:
        """Give back streams and buffers."""
        from cupy.cuda import Device

        for device, streamed in zip(self._devices, self._streamed, strict=True):
            with Device(device):
                streamed.release()

    def _cut(self, operands: Operands) -> list[Operands]:
        m = operands.shape[0]
        return [
            replace(operands, a=operands.a[rows], c=operands.c[rows])
            for rows in cut_panels(m, -(-m // len(self._devices)))
        ]

    def _prepare(self, number: int, part: Operands, until: float) -> None:
        from cupy.cuda import Device

        with Device(self._devices[number]):
            self._streamed[number].prepare(part, until)

    def _multiply(self, number: int, part: Operands) -> None:
        from cupy.cuda import Device

        with Device(self._devices[number]):
            self._streamed[number].multiply(part)
