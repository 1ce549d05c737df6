"""Times of kernels on one product of any shape, by CUDA events."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from wavetrim.kernels.errors import translate_failures
from wavetrim.kernels.gemm.dispatch import multiply_on_device
from wavetrim.kernels.gemm.operands import DeviceArray
from wavetrim.kernels.spec import KernelSpec
from wavetrim.native.plain import Matrix

FILLER_BYTES: Final = 512 * 2**20
"""Memory that the GPU fills before timed launches. Chosen: more than any L2 cache, and filling it
takes longer than preparing a launch."""


@dataclass(frozen=True, slots=True)
class Burst:
    """Back-to-back launches.

    Attributes:
        seconds: Mean time of a launch on the GPU.
        enqueue_seconds: Mean time of the host to enqueue a launch.
    """

    seconds: float
    enqueue_seconds: float


class DeviceProduct:
    """A·B with A, B and C on a GPU, to be computed by different kernels.

    The GPU fills memory while launches are prepared, so the times do not contain the host's work;
    in a pipeline launches are queued ahead, too. The fill also evicts the operands from caches.

    Args:
        a: A[M, K] in host memory or on the GPU.
        b: B[K, N] likewise, of A's element type.
        device_index: The GPU.
        cache_dir: Folder of compiled kernels.
        filler_bytes: Memory to fill before launches.

    Attributes:
        a: A on the GPU, row-major.
        b: B on the GPU, row-major.
        c: C on the GPU, as the last launch left it.

    Raises:
        DeviceFailure: The GPU has too little memory for the matrices.
    """

    def __init__(
        self,
        a: Matrix | DeviceArray,
        b: Matrix | DeviceArray,
        *,
        device_index: int,
        cache_dir: Path,
        filler_bytes: int = FILLER_BYTES,
    ) -> None:
        import cupy

        self._device = cupy.cuda.Device(device_index)
        self._cache_dir = cache_dir
        with self._device, translate_failures():
            self.a: DeviceArray = cupy.asarray(a, order="C")
            self.b: DeviceArray = cupy.asarray(b, order="C")
            self.c: DeviceArray = cupy.empty((a.shape[0], b.shape[1]), a.dtype)
            self._filler = cupy.empty(filler_bytes, np.uint8)

    def compute(self, spec: KernelSpec, *, sms: int | None = None) -> None:
        """Fill C with NaN and enqueue one launch without waiting.

        Args:
            spec: The kernel, of the operands' element type.
            sms: Limit of multiprocessors; None for all.

        Raises:
            OperandError: The operands do not fit the kernel, or it cannot be limited to `sms`.
            CompilationFailed: The kernel does not compile for the device.
            DeviceFailure: A CUDA error.
        """
        with self._device, translate_failures():
            self.c.data.memset_async(0xFF, self.c.nbytes)  # NaN in every type
            self._launch(spec, sms)

    def time_launches(
        self, spec: KernelSpec, launches: int, *, sms: int | None = None
    ) -> tuple[float, ...]:
        """Seconds of each launch, after a warm-up that compiles and loads the kernel.

        C is filled with NaN first, so that `fetch` returns the result of this kernel. Arguments and
        errors are those of `compute`.
        """
        self.compute(spec, sms=sms)
        return tuple(self.time_burst(spec, 1, sms=sms).seconds for _ in range(launches))

    def time_burst(self, spec: KernelSpec, launches: int, *, sms: int | None = None) -> Burst:
        """Time back-to-back launches.

        Args:
            spec: The kernel.
            launches: Number of launches.
            sms: Limit of multiprocessors; None for all.

        Raises:
            KernelsError: As for `compute`.
        """
        import cupy

        with self._device, translate_failures():
            start, end = cupy.cuda.Event(), cupy.cuda.Event()
            self._filler.data.memset_async(0, self._filler.nbytes)
            start.record()
            began = time.perf_counter()
            for _ in range(launches):
                self._launch(spec, sms)
            enqueue_seconds = time.perf_counter() - began
            end.record()
            end.synchronize()
            seconds = cupy.cuda.get_elapsed_time(start, end) / 1e3
        return Burst(seconds / launches, enqueue_seconds / launches)

    def fetch(self) -> Matrix:
        """Copy C, as the last launch left it, to host memory."""
        import cupy

        with self._device, translate_failures():
            product: Matrix = cupy.asnumpy(self.c)
        return product

    def _launch(self, spec: KernelSpec, sms: int | None) -> None:
        multiply_on_device(spec, self.a, self.b, self.c, sms=sms, cache_dir=self._cache_dir)
