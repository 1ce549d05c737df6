"""The memory of measured products, made once: its first touch takes longer than they do."""

from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wavetrim.kernels.transfer.pinned import pin_array
from wavetrim.scheduler.problem import Memory

_BYTES: Final = 352 << 20
"""Memory of each kind: that of the largest product that is measured."""

_PAGE_BYTES: Final = 4096


class OperandMemory:
    """One piece of each kind of memory. What was taken before is overwritten."""

    def __init__(self) -> None:
        self._pieces: dict[Memory, NDArray[Any]] = {}

    def take(
        self, memory: Memory, shapes: tuple[tuple[int, int], ...], dtype: str
    ) -> list[NDArray[Any]]:
        """Matrices of these shapes, written, each from a page's begin on."""
        sizes = [prod(shape) * np.dtype(dtype).itemsize for shape in shapes]
        starts = [0]
        for size in sizes:
            starts.append(-(-(starts[-1] + size) // _PAGE_BYTES) * _PAGE_BYTES)
        piece = self._find_piece(memory, starts[-1])
        matrices = []
        for start, size, shape in zip(starts, sizes, shapes, strict=False):
            matrix = piece[start : start + size].view(dtype).reshape(shape)
            matrix.fill(0.5)
            matrices.append(matrix)
        return matrices

    def _find_piece(self, memory: Memory, least_bytes: int) -> NDArray[Any]:
        piece = self._pieces.get(memory)
        if piece is None or len(piece) < least_bytes:
            shape = (max(_BYTES, least_bytes),)
            pinned = memory == "pinned"
            piece = pin_array(shape, np.uint8) if pinned else np.empty(shape, np.uint8)
            self._pieces[memory] = piece
        return piece
