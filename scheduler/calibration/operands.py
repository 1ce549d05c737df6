"""The matrices of measured products. Their memory is made once: touching it first takes long."""

from math import prod
from typing import Final

import numpy as np

from wavetrim.cpu.products import Matrix
from wavetrim.kernels.transfer.pinned import pin_array
from wavetrim.scheduler.problem import Memory

_BYTES: Final[dict[Memory, int]] = {"pinned": 352 << 20, "pageable": 576 << 20}
"""Memory of each kind: that of the largest product that is measured. Pageable memory is taken from
the system page by page, as it is first written."""

_PAGE_BYTES: Final = 4096

_DRAWN: Final = 65_521
"""Random elements, which repeat: drawing more would take longer than multiplying."""


class OperandMemory:
    """One piece of each kind of memory for the matrices of a product, in place of the last ones.

    One thread writes all of them first, as page-locked memory is made by one. Pages of a C that the
    product's threads write first lie with the cores of each, on a machine with several sockets.
    """

    def __init__(self) -> None:
        self._pieces: dict[Memory, Matrix] = {}

    def draw(self, dtype: str, m: int, n: int, k: int) -> tuple[Matrix, Matrix, Matrix]:
        """A and B of random elements, and a C of zeros, for the CPU."""
        a, b, c = self._place("pageable", ((m, k), (k, n), (m, n)), dtype)
        drawn = (np.random.default_rng(0).random(_DRAWN) * 100).astype(dtype)
        for matrix in (a, b):
            elements = matrix.reshape(-1)
            for start in range(0, elements.size, _DRAWN):
                part = elements[start : start + _DRAWN]
                part[:] = drawn[: part.size]
        c.fill(0)
        return a, b, c

    def take(self, memory: Memory, shapes: tuple[tuple[int, int], ...], dtype: str) -> list[Matrix]:
        """Matrices of these shapes with equal elements."""
        matrices = self._place(memory, shapes, dtype)
        for matrix in matrices:
            matrix.fill(0.5)
        return matrices

    def _place(
        self, memory: Memory, shapes: tuple[tuple[int, int], ...], dtype: str
    ) -> list[Matrix]:
        """Matrices of these shapes, each from the begin of a page."""
        sizes = [prod(shape) * np.dtype(dtype).itemsize for shape in shapes]
        starts = [0]
        for size in sizes:
            starts.append(-(-(starts[-1] + size) // _PAGE_BYTES) * _PAGE_BYTES)
        piece = self._find_piece(memory, starts[-1])
        return [
            piece[start : start + size].view(dtype).reshape(shape)
            for start, size, shape in zip(starts, sizes, shapes, strict=False)
        ]

    def _find_piece(self, memory: Memory, least_bytes: int) -> Matrix:
        piece = self._pieces.get(memory)
        if piece is None or len(piece) < least_bytes:
            shape = (max(_BYTES[memory], least_bytes),)
            pinned = memory == "pinned"
            piece = pin_array(shape, np.uint8) if pinned else np.empty(shape, np.uint8)
            self._pieces[memory] = piece
        return piece
