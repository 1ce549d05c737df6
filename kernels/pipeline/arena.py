"""The device memory of a pipeline: one allocation, divided into the buffers of a product."""

from pathlib import Path
from typing import Any, Final

from wavetrim.kernels.errors import DeviceFailure, OperandError
from wavetrim.kernels.pipeline.command_buffer import CommandBuffer
from wavetrim.kernels.pipeline.launch_cache import LaunchCache
from wavetrim.kernels.pipeline.panels import PanelProblem
from wavetrim.kernels.pipeline.places import PlacedStep, place_steps
from wavetrim.kernels.pipeline.steps import Cut, StepPlan, cut_steps

_OUT_OF_MEMORY: Final = 2  # cudaErrorMemoryAllocation
_RESERVE_BYTES: Final = 256 << 20
"""Device memory left free for libraries and modules; chosen."""

_KEPT_PLANS: Final = 64
"""Placed plans kept for later products; chosen."""


class DeviceArena:
    """Device memory that is kept between products and replaced when it is too small.

    Args:
        gpu_memory_bytes: Largest allocation in bytes; None for all free memory.
        cache_dir: Folder of compiled kernels.

    Attributes:
        launches: Cache of prepared launches, valid while the memory stays.
        commands: Cache of command buffers, likewise, which the pipeline fills.
    """

    def __init__(self, gpu_memory_bytes: int | None, *, cache_dir: Path) -> None:
        self._limit_bytes = gpu_memory_bytes
        self._memory: Any = None
        self._placed: dict[tuple[PanelProblem, Cut], tuple[PlacedStep, ...]] = {}
        self.launches = LaunchCache(cache_dir)
        self.commands: dict[tuple[object, ...], CommandBuffer | None] = {}

    @property
    def size_bytes(self) -> int:
        """Bytes allocated."""
        return self._memory.size if self._memory is not None else 0

    def prepare(self, problem: PanelProblem, cut: Cut) -> tuple[PlacedStep, ...]:
        """Steps of a product with their addresses; panels are smaller where memory is scarce.

        Raises:
            OperandError: Not even one tile fits `gpu_memory_bytes`.
            DeviceFailure: The device has too little free memory, even after a second try.
        """
        placed = self._placed.get((problem, cut))
        return placed if placed is not None else self._place(problem, cut)

    def free(self) -> None:
        """Free the memory."""
        self._memory = None
        self._forget()

    def _forget(self) -> None:
        self._placed.clear()
        self.launches.clear()
        self.commands.clear()

    def _find_limit(self) -> int:
        """Limit in bytes. Without one, the device's memory: asked once, because that is slow."""
        if self._limit_bytes is None:
            from cupy.cuda import runtime

            self._limit_bytes = int(runtime.memGetInfo()[1])
        return self._limit_bytes

    def _place(self, problem: PanelProblem, cut: Cut) -> tuple[PlacedStep, ...]:
        plan = cut_steps(problem, cut, self._find_limit())
        if plan.buffers.total_bytes > self.size_bytes:
            self.free()
            plan = self._allocate(problem, cut, self._find_limit())
        if len(self._placed) >= _KEPT_PLANS:
            self._forget()
        self._placed[problem, cut] = placed = place_steps(plan, self._memory.ptr)
        return placed

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
                if error.status != _OUT_OF_MEMORY:
                    raise
                cupy.get_default_memory_pool().free_all_blocks()
            else:
                return plan
        raise DeviceFailure(
            f"the product needs {plan.buffers.total_bytes} bytes of GPU memory for its buffers; "
            f"{free_bytes} are free"
        )
