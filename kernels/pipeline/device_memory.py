"""The device memory of a pipeline: one allocation, divided into the buffers of a product.

Each resident has an allocation of its own. If buffers and residents do not both fit, residents are
evicted.
"""

from pathlib import Path
from typing import Any, Final, TypeAlias

from wavetrim.kernels.errors import DeviceFailure, OperandError, is_out_of_memory
from wavetrim.kernels.gemm.operands import Layout
from wavetrim.kernels.last_used import LastUsed
from wavetrim.kernels.pipeline.commands.command_buffer import CommandBuffer
from wavetrim.kernels.pipeline.launch_cache import LaunchCache
from wavetrim.kernels.pipeline.resident_cache import Resident, ResidentCache
from wavetrim.kernels.pipeline.step_layouts import StepLayout, lay_out, lay_out_steps
from wavetrim.kernels.schedule.buffers import find_pitched_bytes
from wavetrim.kernels.schedule.panels import Cut, PanelProblem
from wavetrim.kernels.schedule.steps import StepPlan, cut_steps

_RESERVE_BYTES: Final = 256 << 20
"""Device memory left free for what CUDA's libraries and modules allocate; chosen."""

_CACHED_LAYOUTS: Final = 512
"""Products whose step layouts are cached. Chosen, to bound host memory."""

_CACHED_COMMANDS: Final = 1024
"""Command buffers that are cached. Chosen, to bound host memory."""

_LayoutKey: TypeAlias = tuple[PanelProblem, Cut, Layout | None]
"""What decides the addresses of steps: product, cut, and the layout of a resident B."""


class DeviceMemory:
    """Device memory that products use one after the other; replaced when it is too small.

    Create it with its device as the current one.

    Args:
        gpu_memory_bytes: Largest memory in bytes, residents included; None for all free memory.
        cache_dir: Folder of compiled kernels.
        residents: The operands that stay between products.

    Attributes:
        residents: The operands that stay between products.
        launches: Cache of prepared launches, valid until the memory is replaced.
        commands: Cache of command buffers, likewise; `DirectPath` fills it.
        generation: Grows when both become invalid.
    """

    def __init__(
        self, gpu_memory_bytes: int | None, *, cache_dir: Path, residents: ResidentCache
    ) -> None:
        import cupy

        self._device = cupy.cuda.Device()
        self.residents = residents
        self._limit_bytes = gpu_memory_bytes
        self._memory: Any = None
        self._layouts = LastUsed[_LayoutKey, tuple[StepLayout, ...]](_CACHED_LAYOUTS)
        self.launches = LaunchCache(cache_dir)
        self.commands = LastUsed[tuple[object, ...], CommandBuffer | None](_CACHED_COMMANDS)
        self.generation = 0

    @property
    def size_bytes(self) -> int:
        """Bytes allocated."""
        return self._memory.size if self._memory is not None else 0

    def prepare(
        self, problem: PanelProblem, cut: Cut, resident_b: Resident | None = None
    ) -> tuple[StepLayout, ...]:
        """Steps of a product with their addresses; panels are smaller if memory is short.

        Args:
            problem: The product.
            cut: How it is cut.
            resident_b: B, if it is resident.

        Raises:
            OperandError: Not even one tile fits `gpu_memory_bytes`.
            DeviceFailure: The device has too little free memory, even after a second try.
        """
        key = problem, cut, None if resident_b is None else resident_b.layout
        layouts = self._layouts.find(key)
        if layouts is None:
            with self._device:
                layouts = self._lay_out(key, resident_b)
        return layouts

    def reserve_resident(self, rows: int, columns: int, item_bytes: int) -> Resident | None:
        """Allocate memory for a new resident; evict others and free buffers if memory is short.

        Returns:
            The resident, not yet in the cache. None if it is too large, or memory is too short.
        """
        import cupy

        size_bytes = find_pitched_bytes(rows, columns, item_bytes)
        residents = self.residents
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
        self._layouts.clear()
        self.launches.clear()
        self.commands.clear()

    def _find_limit(self) -> int:
        """Limit in bytes; if none was given, the device's memory, asked for once."""
        if self._limit_bytes is None:
            from cupy.cuda import runtime

            self._limit_bytes = int(runtime.memGetInfo()[1])
        return self._limit_bytes

    def _fits(self, size_bytes: int) -> bool:
        """Whether one more resident fits, together with the others and the buffers."""
        import cupy

        taken_bytes = self.residents.size_bytes + self.size_bytes
        free_bytes: int = cupy.cuda.runtime.memGetInfo()[0] - _RESERVE_BYTES
        return size_bytes <= min(free_bytes, self._find_limit() - taken_bytes)

    def _lay_out(self, key: _LayoutKey, resident_b: Resident | None) -> tuple[StepLayout, ...]:
        problem, cut, b_layout = key
        limit = self._find_limit()
        if resident_b is not None:
            limit -= resident_b.size_bytes
        plan = cut_steps(problem, cut, limit)
        if plan.buffers.total_bytes > self.size_bytes:
            self.free()
            self._evict_for(plan.buffers.total_bytes)
            plan = self._allocate(problem, cut, limit)
        layouts = lay_out_steps(plan, self._memory.ptr, b_layout)
        self._layouts.keep(key, layouts)
        return layouts

    def _evict_for(self, size_bytes: int) -> None:
        """Evict residents until buffers of this size fit.

        A resident that the product uses is freed after the product, but no longer counts.
        """
        import cupy

        residents = self.residents
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
