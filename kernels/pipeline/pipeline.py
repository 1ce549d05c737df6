"""Multiplies matrices in host memory on one GPU: the entry to this folder.

If a product's operands are page-locked, its steps are submitted at once (direct_path.py), else one
by one (staged_path.py). A B that is used often may stay on the GPU (resident_cache.py).
"""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from wavetrim.kernels.device import find_device
from wavetrim.kernels.errors import (
    DeviceFailure,
    is_poisoning,
    list_cuda_errors,
    translate_failures,
)
from wavetrim.kernels.gemm.cublas import CublasHandles
from wavetrim.kernels.gemm.launch import load_functions, make_persistent
from wavetrim.kernels.pipeline.device_memory import DeviceMemory
from wavetrim.kernels.pipeline.direct_path import DirectPath
from wavetrim.kernels.pipeline.host_product import GpuTimings, HostProduct
from wavetrim.kernels.pipeline.resident_cache import (
    MOST_RESIDENT_SHARE,
    RESIDENT_SHARE,
    ResidentCache,
)
from wavetrim.kernels.pipeline.staged_path import StagedPath
from wavetrim.kernels.pipeline.straight import StraightProducts
from wavetrim.kernels.schedule.panels import Cut
from wavetrim.kernels.spec import KernelSpec
from wavetrim.kernels.transfer.host_library import open_copiers
from wavetrim.kernels.transfer.pinned import Matrix
from wavetrim.native.tuned import STAGING_THREADS


class GpuPipeline:
    """Multiplies matrices in host memory on one GPU, one product at a time.

    A second caller waits for the first.

    Args:
        device_index: CUDA's index of the device.
        cache_dir: Folder of compiled kernels.
        gpu_memory_bytes: Largest device memory for matrices and their terms; None for all free
            memory. Larger products pass through it in parts. Kernels that divide tiles along K may
            take one more tile for each multiprocessor (gemm/partials.py).
        resident_share: Share of that memory for residents, at most `MOST_RESIDENT_SHARE`; 0 for
            no residents.

    Attributes:
        lock: Locked while a product or a team uses the GPU.
        residents: The operands that stay on the GPU.
        straight: The products that take the straight path.
        direct: The direct path; None if there is no C library.
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
        resident_share: float = RESIDENT_SHARE,
    ) -> None:
        import cupy

        self._device = find_device(device_index)
        self.lock = threading.Lock()
        memory_bytes = min(self._device.memory_bytes, gpu_memory_bytes or self._device.memory_bytes)
        self.residents = ResidentCache(int(min(resident_share, MOST_RESIDENT_SHARE) * memory_bytes))
        with cupy.cuda.Device(device_index):
            threads = min(STAGING_THREADS, len(os.sched_getaffinity(0)))
            self._copiers = open_copiers(threads - 1, cache_dir=cache_dir)
            self._memory = DeviceMemory(
                gpu_memory_bytes, cache_dir=cache_dir, residents=self.residents
            )
            self._staged = StagedPath(self._device, self._copiers, self._memory)
            self.compute_stream = self._staged.streams[1]
            self.handles = CublasHandles(self.compute_stream)
            self.straight = StraightProducts(self)
            self.direct: DirectPath | None = None
            if self._copiers is not None:
                between = cupy.cuda.Stream(non_blocking=True)
                streams = *self._staged.streams, between
                self.direct = DirectPath(
                    self._device, self._copiers, streams, self.handles, self._memory
                )
        self._cache_dir = cache_dir

    def load(self, spec: KernelSpec, *, sms: int | None = None) -> None:
        """Load a kernel ahead of its first product; compile it if it is not in the cache.

        Args:
            spec: The kernel.
            sms: Limit of multiprocessors, as for `multiply`.

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

    def multiply(
        self,
        spec: KernelSpec,
        a: Matrix,
        b: Matrix,
        c: Matrix,
        *,
        cut: Cut,
        alpha: float = 1.0,
        beta: float = 0.0,
        progress: Callable[[int], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
        sms: int | None = None,
        copiers: int | None = None,
        begun: Callable[[], None] | None = None,
        final: Callable[[range], None] | None = None,
        timed: bool = False,
        b_key: str | None = None,
    ) -> GpuTimings:
        """C ← αA·B + βC in place. As in BLAS, β = 0 never reads C, and α = 0 neither A nor B.

        Args:
            spec: The kernel.
            a: A[M,K] of the kernel's element type; any strides, also mapped from a file.
            b: B[K,N], likewise.
            c: C[M,N], likewise; writable, sharing no memory with A and B.
            cut: How the rows are cut into steps; panels are smaller if memory is short.
            alpha: Factor of the product.
            beta: Factor of the old C.
            progress: Called in the calling thread with the rows newly finished; adds up to M.
            cancelled: Polled in the calling thread between panels; True ends the product.
            sms: Limit of multiprocessors, for a kernel that `can_limit_sms`; None for all.
            copiers: Threads for copies between the caller's memory and page-locked slabs; None for
                all. Fewer leave cores to other work.
            begun: Called once in the calling thread when the first copies are under way, so that
                work that it starts does not delay them. Not called if only C is scaled.
            final: Called in the calling thread with the rows 0…r of C that have arrived and will
                not be written again.
            timed: Whether copies and kernels are timed, which delays each by some microseconds.
                Staged products always are.
            b_key: Key of B, as for `keep`: if that is resident, B is not copied in.

        Raises:
            OperandError: Element types or shapes do not fit, not even one tile fits the memory, or
                the kernel cannot be limited to `sms` multiprocessors.
            PipelineCancelled: `cancelled` returned True; C is incomplete.
            DeviceFailure: A CUDA error, or too little GPU memory. Unless it is `poisoned`, the
                pipeline can be used again.
            CompilationFailed: The kernel does not compile for the device.
        """
        resident_b = None if b_key is None else self.residents.use(b_key)
        product = HostProduct(
            spec, a, b, c, alpha, beta, progress, final, sms, timed, resident_b,
            cancelled=cancelled, begun=begun, copiers=copiers,
        )  # fmt: skip
        product.check()
        if alpha == 0 or c.size == 0:
            product.scale_c()
            if progress is not None:
                progress(c.shape[0])
            if final is not None:
                final(range(c.shape[0]))
            return GpuTimings(0.0, 0.0, 0.0)
        with self.lock:
            try:
                timings, operands = None, product.describe_operands()
                if self.direct is not None:
                    timings = self.direct.compute(product, operands, cut)
                if timings is None:
                    import cupy  # only here: an import statement counts in short products

                    with cupy.cuda.Device(self._device.index):
                        timings = self._staged.compute(product, operands, cut)
            except BaseException as error:
                self.recover(error)
            return timings

    def keep(self, key: str, b: Matrix) -> bool:
        """Make a B resident: copy it in for products that give its key.

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
                    resident = self._memory.reserve_resident(rows, columns, b.itemsize)
                    if resident is None:
                        return False
                    self._staged.fetch(b, resident)
            except BaseException as error:
                self.recover(error)
            self.residents.add(key, resident)
            return True

    @property
    def generation(self) -> int:
        """Generation of the device memory: while it is the same, addresses in it stay valid."""
        return self._memory.generation

    def reserve(self, size_bytes: int) -> int | None:
        """Address of device memory of this size; None if it is too small. Needs `lock`."""
        return self._memory.reserve(size_bytes)

    @property
    def is_crowded(self) -> bool:
        """Whether copy threads have lately lost their cores to other threads."""
        return self._copiers is not None and self._copiers.is_crowded

    @property
    def device_index(self) -> int:
        """CUDA's index of the device."""
        return self._device.index

    def close(self) -> None:
        """End the threads and free all memory; the pipeline cannot be used afterwards."""
        import cupy

        with self.lock, cupy.cuda.Device(self._device.index):
            self._staged.close()
            if self._copiers is not None:
                self._copiers.close()
            self.handles.close()
            self._memory.free()
            self.residents.shrink(0)

    def recover(self, error: BaseException) -> NoReturn:
        """Wait until nothing is in flight, then raise the error. Needs `lock`."""
        import cupy

        with cupy.cuda.Device(self._device.index):
            failure = self._staged.abandon()
        if failure is not None:
            raise DeviceFailure(f"{error}; then {failure}", poisoned=True) from error
        if isinstance(error, list_cuda_errors()):
            raise DeviceFailure(str(error), poisoned=is_poisoning(error)) from error
        raise error
