"""The device memory of a pipeline: one allocation, divided into the buffers of a product.

Residents have memory of their own. Buffers go first: if both do not fit, residents leave.
"""

from pathlib import Path
from typing import Any, Final, TypeAlias

from wavetrim.kernels.errors import DeviceFailure, OperandError, is_out_of_memory
from wavetrim.kernels.gemm.operands import Layout
from wavetrim.kernels.last_used import LastUsed
from wavetrim.kernels.pipeline.commands.command_buffer import CommandBuffer
from wavetrim.kernels.pipeline.launch_cache import LaunchCache
from wavetrim.kernels.pipeline.places import PlacedStep, lay_out, place_steps
from wavetrim.kernels.pipeline.residents import Resident, Residents
from wavetrim.kernels.schedule.buffers import find_pitched_bytes
from wavetrim.kernels.schedule.panels import PanelProblem
from wavetrim.kernels.schedule.steps import Cut, StepPlan, cut_steps

_RESERVE_BYTES: Final = 256 << 20
"""Device memory left free for what CUDA's libraries and modules allocate; chosen."""

_KEPT_PLACINGS: Final = 512
"""Products whose steps are kept with their addresses; each resident has its own. Chosen, to bound
host memory."""

_KEPT_BUFFERS: Final = 1024
"""Command buffers that are kept; a product may have one that is timed and one that is not.
Chosen, to bound host memory."""

_Placing: TypeAlias = tuple[PanelProblem, Cut, Layout | None]
"""What decides the addresses of steps. A resident's place stands for it: another resident of that
shape at that address, later, has the same steps."""


class DeviceMemory:
    """Device memory that is kept between products and replaced when it is too small.

    It is made with its device as the current one.

    Args:
        gpu_memory_bytes: Most memory in bytes, residents included; None for all free memory.
        cache_dir: Folder of compiled kernels.
        residents: The operands that stay.

    Attributes:
        residents: The operands that stay.
        launches: Cache of prepared launches, valid while the memory stays.
        commands: Cache of command buffers, likewise, which the pipeline fills.
        generation: Grows whenever they become invalid.
    """

    def __init__(
        self, gpu_memory_bytes: int | None, *, cache_dir: Path, residents: Residents
    ) -> None:
        import cupy

        self._device = cupy.cuda.Device()
        self.residents = residents
        self._limit_bytes = gpu_memory_bytes
        self._memory: Any = None
        self._placed = LastUsed[_Placing, tuple[PlacedStep, ...]](_KEPT_PLACINGS)
        self.launches = LaunchCache(cache_dir)
        self.commands = LastUsed[tuple[object, ...], CommandBuffer | None](_KEPT_BUFFERS)
        self.generation = 0

    @property
    def size_bytes(self) -> int:
        """Bytes allocated."""
        return self._memory.size if self._memory is not None else 0

    def prepare(
        self, problem: PanelProblem, cut: Cut, resident_b: Resident | None = None
    ) -> tuple[PlacedStep, ...]:
        """Steps of a product with their addresses; panels are smaller if memory is short.

        Args:
            problem: The product.
            cut: How it is cut.
            resident_b: B, if it is on the device already.

        Raises:
            OperandError: Not even one tile fits `gpu_memory_bytes`.
            DeviceFailure: The device has too little free memory, even after a second try.
        """
        placing = problem, cut, None if resident_b is None else resident_b.place
        placed = self._placed.find(placing)
        if placed is None:
            with self._device:
                placed = self._place(placing, resident_b)
        return placed

    def reserve_resident(self, rows: int, columns: int, item_bytes: int) -> Resident | None:
        """Allocate memory for a new resident; others leave and buffers are freed to make room.

        Returns:
            The resident, not yet among the others. None if it is too large, or the device has too
            little free memory.
        """
        import cupy

        size_bytes = find_pitched_bytes(rows, columns, item_bytes)
        residents = self.residents
        if size_bytes > residents.limit_bytes:
            return None
        residents.shrink(residents.limit_bytes - size_bytes)
        if not self._has_room(size_bytes):
            self.free()  # the next product allocates what it needs
            if not self._has_room(size_bytes):
                return None
        try:
            memory = cupy.cuda.Memory(size_bytes)
        except cupy.cuda.runtime.CUDARuntimeError as error:
            if not is_out_of_memory(error):
                raise
            return None
        return Resident(lay_out(memory.ptr, rows, columns, item_bytes), size_bytes, memory)

    def free(self) -> None:
        """Free the memory, and drop what is only valid in it."""
        self._memory = None
        self.generation += 1
        self._placed.clear()
        self.launches.clear()
        self.commands.clear()

    def _find_limit(self) -> int:
        """Limit in bytes. Without one, the device's memory: asked once, because that is slow."""
        if self._limit_bytes is None:
            from cupy.cuda import runtime

            self._limit_bytes = int(runtime.memGetInfo()[1])
        return self._limit_bytes

    def _has_room(self, size_bytes: int) -> bool:
        """Whether one more resident fits, together with the others and the buffers."""
        import cupy

        taken_bytes = self.residents.size_bytes + self.size_bytes
        free_bytes: int = cupy.cuda.runtime.memGetInfo()[0] - _RESERVE_BYTES
        return size_bytes <= min(free_bytes, self._find_limit() - taken_bytes)

    def _place(self, placing: _Placing, resident_b: Resident | None) -> tuple[PlacedStep, ...]:
        problem, cut, place_of_b = placing
        limit = self._find_limit()
        if resident_b is not None:
            limit -= resident_b.size_bytes
        plan = cut_steps(problem, cut, limit)
        if plan.buffers.total_bytes > self.size_bytes:
            self.free()
            self._evict_for(plan.buffers.total_bytes)
            plan = self._allocate(problem, cut, limit)
        placed = place_steps(plan, self._memory.ptr, place_of_b)
        self._placed.keep(placing, placed)
        return placed

    def _evict_for(self, size_bytes: int) -> None:
        """Let residents go until buffers of this size fit.

        One that the product uses stays alive until the product ends, but no longer counts.
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
