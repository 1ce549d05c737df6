"""The device memory of a pipeline: one allocation, divided into the buffers of a product.

Each resident has an allocation of its own. If buffers and residents do not both fit, residents are
evicted.
"""

from pathlib import Path
from typing import Any, Final

from wavetrim.kernels.device import DeviceInfo
from wavetrim.kernels.errors import DeviceFailure, OperandError, is_out_of_memory
from wavetrim.kernels.gemm.bulk import Workspace
from wavetrim.kernels.gemm.dispatch import check_sms
from wavetrim.kernels.gemm.prepared import bind_context
from wavetrim.kernels.last_used import LastUsed
from wavetrim.kernels.pipeline.host_product import HostProduct
from wavetrim.kernels.pipeline.prepared_steps import (
    PreparedSteps,
    lay_out,
    lay_out_steps,
    prepare_steps,
)
from wavetrim.kernels.pipeline.resident_cache import Resident, ResidentCache
from wavetrim.kernels.schedule.buffers import find_pitched_bytes
from wavetrim.kernels.schedule.panels import Cut, PanelProblem
from wavetrim.kernels.schedule.steps import StepPlan, cut_steps

_RESERVE_BYTES: Final = 256 << 20
"""Device memory left free for what CUDA's libraries and modules allocate; chosen."""

_MOST_CACHED: Final = 1024
"""Kinds of products whose prepared steps are cached. Chosen, to bound host memory: each of up to 50
steps takes some KB."""


class DeviceMemory:
    """Device memory that products use one after the other; replaced when it is too small.

    Create it with its device as the current one.

    Args:
        device: The device.
        gpu_memory_bytes: Largest memory in bytes, residents included; None for all free memory.
        compute: CuPy's stream of the kernels.
        cache_dir: Folder of compiled kernels.
        residents: The operands that stay between products.

    Attributes:
        generation: Grows when addresses in the memory become invalid, and what was prepared in it.
    """

    def __init__(
        self,
        device: DeviceInfo,
        gpu_memory_bytes: int | None,
        *,
        compute: Any,
        cache_dir: Path,
        residents: ResidentCache,
    ) -> None:
        import cupy

        self._device, self._compute = cupy.cuda.Device(), compute
        self._sm_count, self._cache_dir, self._residents = device.sm_count, cache_dir, residents
        self._limit_bytes = gpu_memory_bytes
        self._memory: Any = None
        self._workspace = Workspace()
        self._prepared = LastUsed[tuple[object, ...], PreparedSteps](_MOST_CACHED)
        self.generation = 0

    @property
    def size_bytes(self) -> int:
        """Bytes allocated."""
        return self._memory.size if self._memory is not None else 0

    def prepare(self, product: HostProduct, cut: Cut) -> PreparedSteps:
        """The steps of a product, cached or new; panels are smaller if memory is short.

        Args:
            product: The product.
            cut: How its rows are cut into steps.

        Raises:
            OperandError: Not even one tile fits `gpu_memory_bytes`, or the kernel cannot be limited
                to the product's number of multiprocessors.
            DeviceFailure: The device has too little free memory, even after a second try.
            KernelsError: As for `prepare_product`.
        """
        resident = product.resident_b
        key = (
            *(product.spec, product.c.shape, product.a.shape[1], cut, product.alpha, product.beta),
            *(product.sms, None if resident is None else resident.layout),
        )
        steps = self._prepared.find(key)
        if steps is None:
            with self._device, self._compute:
                bind_context()
                steps = self._prepare(product, cut)
            if steps.is_lasting:
                self._prepared.keep(key, steps)
        return steps

    def reserve_resident(self, rows: int, columns: int, item_bytes: int) -> Resident | None:
        """Allocate memory for a new resident; evict others and free buffers if memory is short.

        Returns:
            The resident, not yet in the cache. None if it is too large, or memory is too short.
        """
        import cupy

        size_bytes = find_pitched_bytes(rows, columns, item_bytes)
        residents = self._residents
        if size_bytes > residents.limit_bytes:
            return None
        residents.shrink(residents.limit_bytes - size_bytes)
        if not self._fits(size_bytes):
            self.free()  # the next product allocates what it needs
            if not self._fits(size_bytes):
                return None
        try:
            memory = cupy.cuda.Memory(size_bytes)
        except cupy.cuda.runtime.CUDARuntimeError as error:
            if not is_out_of_memory(error):
                raise
            return None
        return Resident(lay_out(memory.ptr, rows, columns, item_bytes), size_bytes, memory)

    def reserve(self, size_bytes: int) -> int | None:
        """Address of the memory, grown to this size if it is smaller; None if it cannot grow."""
        import cupy

        if size_bytes > self.size_bytes:
            if size_bytes > self._find_limit():
                return None
            self.free()
            self._evict_for(size_bytes)
            try:
                self._memory = cupy.cuda.Memory(size_bytes)
            except cupy.cuda.runtime.CUDARuntimeError as error:
                if not is_out_of_memory(error):
                    raise
                return None
        address: int = self._memory.ptr
        return address

    def free(self) -> None:
        """Free the memory, and drop what is only valid in it."""
        self._memory = None
        self.generation += 1
        self._prepared.clear()
        self._workspace.free()

    def _find_limit(self) -> int:
        """Limit in bytes; if none was given, the device's memory, asked for once."""
        if self._limit_bytes is None:
            from cupy.cuda import runtime

            self._limit_bytes = int(runtime.memGetInfo()[1])
        return self._limit_bytes

    def _fits(self, size_bytes: int) -> bool:
        """Whether one more resident fits, together with the others and the buffers."""
        import cupy

        taken_bytes = self._residents.size_bytes + self.size_bytes
        free_bytes: int = cupy.cuda.runtime.memGetInfo()[0] - _RESERVE_BYTES
        return size_bytes <= min(free_bytes, self._find_limit() - taken_bytes)

    def _prepare(self, product: HostProduct, cut: Cut) -> PreparedSteps:
        check_sms(product.spec, product.sms, self._sm_count)
        problem, resident = product.find_panels(self._sm_count), product.resident_b
        limit = self._find_limit()
        if resident is not None:
            limit -= resident.size_bytes
        plan = cut_steps(problem, cut, limit)
        if plan.buffers.total_bytes > self.size_bytes:
            self.free()
            self._evict_for(plan.buffers.total_bytes)
            plan = self._allocate(problem, cut, limit)
        layouts = lay_out_steps(
            plan, self._memory.ptr, None if resident is None else resident.layout
        )
        return prepare_steps(layouts, product, self._cache_dir, self._workspace)

    def _evict_for(self, size_bytes: int) -> None:
        """Evict residents until buffers of this size fit.

        A resident that the product uses is freed after the product, but no longer counts.
        """
        import cupy

        residents = self._residents
        if not residents.size_bytes:
            return
        free_bytes = cupy.cuda.runtime.memGetInfo()[0] - _RESERVE_BYTES
        spare_bytes = min(free_bytes, self._find_limit() - residents.size_bytes)
        if size_bytes > spare_bytes:
            residents.shrink(residents.size_bytes - (size_bytes - spare_bytes))

    def _allocate(self, problem: PanelProblem, cut: Cut, limit: int) -> StepPlan:
        """Plan and allocate within the free memory; try again with less if the allocation fails."""
        import cupy

        for usable in (0.75, 0.5):
            free_bytes = cupy.cuda.runtime.memGetInfo()[0]
            within = min(limit, max(free_bytes - _RESERVE_BYTES, int(usable * free_bytes)))
            try:
                plan = cut_steps(problem, cut, within)
                self._memory = cupy.cuda.Memory(plan.buffers.total_bytes)
            except OperandError as error:
                if within == limit:
                    raise
                raise DeviceFailure(
                    f"{free_bytes} bytes of GPU memory are free, too few: {error}"
                ) from error
            except cupy.cuda.runtime.CUDARuntimeError as error:
                if not is_out_of_memory(error):
                    raise
                cupy.get_default_memory_pool().free_all_blocks()
            else:
                return plan
        raise DeviceFailure(
            f"the product needs {plan.buffers.total_bytes} bytes of GPU memory for its buffers; "
            f"{free_bytes} are free"
        )
