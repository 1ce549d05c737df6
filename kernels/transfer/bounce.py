"""The bounce buffer: page-locked memory through which small pageable products travel whole."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wavetrim.kernels.transfer.copies import HostOperand
from wavetrim.kernels.transfer.pinned import Matrix, has_adjacent_rows, pin_array
from wavetrim.native.tuned import SMALL_PRODUCT_BYTES

_ALIGNMENT_BYTES: Final = 256
"""Matrices begin at multiples of this, as CUDA's own allocations do."""


class BounceBuffer:
    """Memory for the operands of one product; allocated when it is first needed.

    Args:
        device_index: The GPU whose context locks the memory.
    """

    def __init__(self, device_index: int) -> None:
        self._device_index = device_index
        self._memory: NDArray[Any] | None = None

    def find_matrices(self, operands: Sequence[HostOperand]) -> list[Matrix] | None:
        """A page-locked matrix for each operand: itself, or one of its shape in this buffer.

        Args:
            operands: A, B and C, of at most `SMALL_PRODUCT_BYTES` together.

        Returns:
            The matrices. None if the elements of a row are not adjacent in one of them: C threads
            copy that faster.

        Raises:
            DeviceFailure: The memory cannot be locked.
        """
        if not all(has_adjacent_rows(operand.matrix) for operand in operands):
            return None
        if self._memory is None:
            self._memory = self._lock(SMALL_PRODUCT_BYTES + len(operands) * _ALIGNMENT_BYTES)
        found: list[Matrix] = []
        taken_bytes = 0
        for operand in operands:
            matrix = operand.matrix
            if operand.is_pinned:
                found.append(matrix)
                continue
            memory = self._memory[taken_bytes : taken_bytes + matrix.nbytes]
            found.append(memory.view(matrix.dtype).reshape(matrix.shape))
            taken_bytes += -(-matrix.nbytes // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
        return found

    def close(self) -> None:
        """Free the memory."""
        self._memory = None

    def _lock(self, size_bytes: int) -> NDArray[Any]:
        from cupy.cuda import Device

        with Device(self._device_index):
            return pin_array((size_bytes,), np.uint8)
