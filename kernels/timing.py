"""Seconds of kernels on one product of any shape, by CUDA events."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kernels.catalog import KernelSpec
from kernels.errors import RECOVERABLE_STATUSES, DeviceFailure
from kernels.gemm import multiply_on_device

Matrix = NDArray[Any]

_FILLER_BYTES: Final = 512 * 2**20


class ResidentProduct:
    """A·B with A, B and C resident on a GPU; one kernel after the other computes it.

    Args:
        a: A[M, K] in host memory.
        b: B[K, N] in host memory, of A's element type.
        device_index: The GPU.
        cache_dir: Folder of compiled kernels.

    Raises:
        DeviceFailure: The GPU has no room for them.
    """

    def __init__(self, a: Matrix, b: Matrix, *, device_index: int, cache_dir: Path) -> None:
        import cupy

        self._device = cupy.cuda.Device(device_index)
        self._cache_dir = cache_dir
        with self._device, _translate_failures():
            self._a = cupy.asarray(np.ascontiguousarray(a))
            self._b = cupy.asarray(np.ascontiguousarray(b))
            self._c = cupy.empty((a.shape[0], b.shape[1]), a.dtype)
            self._filler = cupy.empty(_FILLER_BYTES, np.uint8)

    def time_launches(self, spec: KernelSpec, launches: int) -> tuple[float, ...]:
        """Seconds of each launch; one more goes before them, which compiles and loads.

        C is overwritten with NaN first, so that `fetch` returns what this kernel computed.

        Args:
            spec: The kernel, of the operands' element type.
            launches: How many are timed.

        Raises:
            OperandError: The operands do not fit the kernel.
            CompilationFailed: The kernel does not compile for the device.
            DeviceFailure: A CUDA error.
        """
        with self._device, _translate_failures():
            self._c.fill(np.nan)
            return tuple(self._time_launch(spec) for _ in range(launches + 1))[1:]

    def fetch(self) -> Matrix:
        """C as the last launch left it, in host memory."""
        import cupy

        with self._device, _translate_failures():
            product: Matrix = cupy.asnumpy(self._c)
        return product

    def _time_launch(self, spec: KernelSpec) -> float:
        import cupy

        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        # Keeps the GPU busy while the launch is prepared, which is thus not counted; and leaves
        # nothing of the operands in the caches.
        self._filler.data.memset_async(0, self._filler.nbytes)
        start.record()
        multiply_on_device(spec, self._a, self._b, self._c, cache_dir=self._cache_dir)
        end.record()
        end.synchronize()
        return float(cupy.cuda.get_elapsed_time(start, end)) / 1e3


@contextlib.contextmanager
def _translate_failures() -> Iterator[None]:
    """CUDA's errors as this project's."""
    import cupy

    refusals = (
        cupy.cuda.runtime.CUDARuntimeError,
        cupy.cuda.driver.CUDADriverError,
        cupy.cuda.memory.OutOfMemoryError,
    )
    try:
        yield
    except refusals as error:
        poisoned = getattr(error, "status", 2) not in RECOVERABLE_STATUSES
        raise DeviceFailure(str(error), poisoned=poisoned) from error
