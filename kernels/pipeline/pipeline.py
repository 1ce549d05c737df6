"""Multiplies matrices in host memory on one GPU: the entry to this folder.

Its steps are commands (command_path.py). A B that is used often may stay on the GPU
(resident_cache.py). Without the C library the steps run one after the other (plain_path.py).
"""

import os
import threading
from pathlib import Path
from typing import NoReturn

from wavetrim.kernels.device import find_device
from wavetrim.kernels.errors import (
    DeviceFailure,
    list_cuda_errors,
    raise_failure,
    translate_failures,
)
from wavetrim.kernels.gemm.cublas import CublasHandles
from wavetrim.kernels.gemm.launch import load_functions, make_persistent
from wavetrim.kernels.pipeline.command_path import CommandPath
from wavetrim.kernels.pipeline.device_memory import DeviceMemory
from wavetrim.kernels.pipeline.host_product import GpuTimings, HostProduct
from wavetrim.kernels.pipeline.plain_path import PlainPath
from wavetrim.kernels.pipeline.resident_cache import RESIDENT_SHARE, ResidentCache
from wavetrim.kernels.pipeline.straight import StraightProducts
from wavetrim.kernels.schedule.panels import Cut
from wavetrim.kernels.spec import KernelSpec
from wavetrim.kernels.transfer.host_library import open_copiers
from wavetrim.native.plain import Matrix
from wavetrim.native.pool import Crowd
from wavetrim.native.tuned import STAGING_THREADS


class GpuPipeline:
    """Multiplies matrices in host memory on one GPU, one product at a time.

    A second caller waits for the first.

    Args:
        device_index: CUDA's index of the device.
        cache_dir: Folder of compiled kernels.
        gpu_memory_bytes: Largest device memory for matrices and their terms; None for all free
            memory. Larger products pass through it in parts. Kernels that divide tiles along K may
            take one more tile for each multiprocessor (gemm/bulk.py).

    Attributes:
        lock: Locked while a product or a team uses the GPU.
        memory: The device memory, for calls while `lock` is locked.
        residents: The operands that stay on the GPU.
        straight: The products that take the straight path.
        path: The way of products as commands; None if there is no C library.
        compute_stream: CuPy's stream of the kernels.
        handles: Handles of cuBLAS on it, for calls while `lock` is locked.

    Raises:
        DeviceUnavailable: There is no such device.
    """

    def __init__(
        self,
        device_index: int = 0,
        *,
        cache_dir: Path,
        gpu_memory_bytes: int | None = None,
    ) -> None:
        import cupy

        self._device = find_device(device_index)
        self.lock = threading.Lock()
        memory_bytes = min(self._device.memory_bytes, gpu_memory_bytes or self._device.memory_bytes)
        self.residents = ResidentCache(int(RESIDENT_SHARE * memory_bytes))
        with cupy.cuda.Device(device_index):
            threads = min(STAGING_THREADS, len(os.sched_getaffinity(0)))
            self._copiers = open_copiers(threads - 1, cache_dir=cache_dir)
            self.compute_stream = cupy.cuda.Stream(non_blocking=True)
            self.memory = DeviceMemory(
                self._device,
                gpu_memory_bytes,
                compute=self.compute_stream,
                cache_dir=cache_dir,
                residents=self.residents,
            )
            self.handles = CublasHandles(self.compute_stream)
            self.straight = StraightProducts(self)
            self._plain = PlainPath(self.compute_stream, self.memory)
            self.path: CommandPath | None = None
            if self._copiers is not None:
                self.path = CommandPath(
                    self._device, self._copiers, self.compute_stream, self.handles, self.memory
                )
        self._cache_dir = cache_dir

    def load(self, spec: KernelSpec, *, sms: int | None = None) -> None:
        """Load a kernel ahead of its first product; compile it if it is not in the cache.

        Args:
            spec: The kernel.
            sms: Limit of multiprocessors, as for `HostProduct`.

        Raises:
            CompilationFailed: It does not compile for the device.
            DeviceFailure: A CUDA error.
        """
        import cupy

        if spec.is_cublas:
            return
        limited = make_persistent(spec) if sms is not None and spec.can_limit_sms else spec
        with self.lock, cupy.cuda.Device(self._device.index), translate_failures():
            load_functions(limited, self._cache_dir)

    def multiply(self, product: HostProduct, cut: Cut) -> GpuTimings:
        """C ← αA·B + βC in place.

        Args:
            product: The product; its hooks are called in the calling thread.
            cut: How its rows are cut into steps; panels are smaller if memory is short.

        Raises:
            OperandError: Element types or shapes do not fit, not even one tile fits the memory, or
                the kernel cannot be limited to the product's number of multiprocessors.
            PipelineCancelled: Its hooks cancelled it; C is incomplete.
            DeviceFailure: A CUDA error, or too little GPU memory. Unless it is `poisoned`, the
                pipeline can be used again.
            CompilationFailed: The kernel does not compile for the device.
        """
        product.check()
        if product.alpha == 0 or product.c.size == 0:
            product.scale_c()
            return GpuTimings(0.0, 0.0, 0.0)
        with self.lock:
            try:
                if self.path is not None:
                    return self.path.multiply(product, product.describe_operands(), cut)
                import cupy  # only here: an import statement counts in short products

                with cupy.cuda.Device(self._device.index):
                    return self._plain.multiply(product, cut)
            except BaseException as error:
                self.recover(error)

    def keep(self, key: str, b: Matrix) -> bool:
        """Make a B resident: copy it in for products that use it (`residents.use`).

        If memory is short, the least recently used residents are evicted, later perhaps this one.
        `residents.forget` drops it. A product that is using it ends undisturbed.

        Args:
            key: Stands for these elements, and never for others.
            b: B[K,N] of a kernel's element type; any strides.

        Returns:
            Whether it is resident; False if memory is short.

        Raises:
            DeviceFailure: A CUDA error.
        """
        import cupy

        with self.lock:
            if key in self.residents:
                return True
            try:
                with cupy.cuda.Device(self._device.index):
                    rows, columns = b.shape
                    resident = self.memory.reserve_resident(rows, columns, b.itemsize)
                    if resident is None:
                        return False
                    (self.path or self._plain).fetch(b, resident)
            except BaseException as error:
                self.recover(error)
            self.residents.add(key, resident)
            return True

    def find_crowd(self) -> Crowd:
        """Who else wants the cores now; "quiet" if there is no C library."""
        return "quiet" if self._copiers is None else self._copiers.find_crowd()

    @property
    def device_index(self) -> int:
        """CUDA's index of the device."""
        return self._device.index

    def close(self) -> None:
        """End the threads and free all memory; the pipeline cannot be used afterwards."""
        import cupy

        with self.lock, cupy.cuda.Device(self._device.index):
            if self.path is not None:
                self.path.close()
            if self._copiers is not None:
                self._copiers.close()
            self.handles.close()
            self.memory.free()
            self.residents.shrink(0)

    def recover(self, error: BaseException) -> NoReturn:
        """Wait until nothing is in flight, then raise the error. Needs `lock`."""
        import cupy

        if self.path is not None:
            self.path.abandon()
        try:
            with cupy.cuda.Device(self._device.index):
                cupy.cuda.runtime.deviceSynchronize()
        except list_cuda_errors() as failure:
            raise DeviceFailure(f"{error}; then {failure}", poisoned=True) from error
        raise_failure(error)
