"""One allocation of device memory, divided into the buffers of a product."""

from typing import Any

import numpy as np

from kernels.buffers import Buffers
from kernels.errors import DeviceFailure, OperandError
from kernels.panels import PanelProblem, pitch_items
from kernels.region import DeviceRegion
from kernels.steps import StepPlan, plan_steps

_OUT_OF_MEMORY = 2  # cudaErrorMemoryAllocation
_RESERVE_BYTES = 256 << 20
"""Left free for the workspaces of libraries and for modules."""


class DeviceArena:
    """The device memory of a pipeline: kept from call to call, replaced when it is too small.

    Args:
        gpu_memory_bytes: The most to allocate; None for all that is free.
    """

    def __init__(self, gpu_memory_bytes: int | None) -> None:
        self._limit_bytes = gpu_memory_bytes
        self._memory: Any = None
        self._buffers: Buffers | None = None
        self._places: dict[str, tuple[int, int]] = {}
        self._split_memory: int | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes allocated now."""
        return self._memory.size if self._memory is not None else 0

    def prepare(self, problem: PanelProblem) -> StepPlan:
        """Plan a product and have the memory for it, with smaller panels if it is scarce.

        Raises:
            OperandError: Not one tile fits within `gpu_memory_bytes`.
            DeviceFailure: The device has too little free memory, even after a second try.
        """
        from cupy.cuda import runtime

        limit = self._limit_bytes or runtime.memGetInfo()[1]
        plan = plan_steps(problem, limit)
        if plan.buffers.total_bytes > self.size_bytes:
            self.free()
            plan = self._allocate(problem, limit)
        if plan.buffers is not self._buffers:
            self._lay_out(plan.buffers)
        return plan

    def place(self, operand: str, slot: int, columns: int) -> DeviceRegion:
        """Where a buffer lies.

        Args:
            operand: "a", "b" or "c".
            slot: Number of the buffer.
            columns: Columns of the matrix that it is to hold.
        """
        assert self._buffers is not None, "buffers are placed after they are prepared"
        start, slot_bytes = self._places[operand]
        pitch = pitch_items(columns, self._buffers.item_bytes)
        return DeviceRegion(start + slot * slot_bytes, pitch)

    def find_split_memory(self) -> int | None:
        """Address of the memory for what the kernel makes of A and B; None where it has none."""
        assert self._buffers is not None, "buffers are placed after they are prepared"
        return self._split_memory

    def view(self, region: DeviceRegion, rows: int, columns: int, dtype: np.dtype[Any]) -> Any:
        """A cupy.ndarray over a region."""
        import cupy

        pointer = cupy.cuda.MemoryPointer(self._memory, region.pointer - self._memory.ptr)
        strides = (region.pitch * dtype.itemsize, dtype.itemsize)
        return cupy.ndarray((rows, columns), dtype, pointer, strides)

    def free(self) -> None:
        """Give the memory back."""
        self._memory = self._buffers = None

    def _lay_out(self, buffers: Buffers) -> None:
        """Where the first buffer of each operand lies, and the bytes to the next one."""
        start: int = self._memory.ptr
        for operand, slots, size_bytes in (
            ("a", buffers.a_slots, buffers.a_bytes),
            ("b", buffers.b_slots, buffers.b_bytes),
            ("c", buffers.c_slots, buffers.c_bytes),
        ):
            self._places[operand] = start, size_bytes
            start += slots * size_bytes
        self._split_memory = start if buffers.split_bytes else None
        self._buffers = buffers

    def _allocate(self, problem: PanelProblem, limit: int) -> StepPlan:
        """Plan within what is free; where another takes it in between, once more with less."""
        import cupy

        for usable in (0.75, 0.5):
            free_bytes = cupy.cuda.runtime.memGetInfo()[0]
            within = min(limit, max(free_bytes - _RESERVE_BYTES, int(usable * free_bytes)))
            try:
                plan = plan_steps(problem, within)
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
