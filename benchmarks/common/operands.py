"""A, B and C in host memory, drawn, copied and overwritten by all cores."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.common.shapes import Shape
from wavetrim.cpu.threads import usable_cores
from wavetrim.kernels.transfer.pinned import pin_matrix
from wavetrim.scheduler.problem import GemmProblem, Memory

Matrix = NDArray[Any]

_LEAST_BYTES: Final = 4 * 2**20
"""Least bytes for each thread; chosen."""


@dataclass(frozen=True, slots=True, eq=False)
class Operands:
    """The matrices of one product.

    Attributes:
        a: A[M, K], row-major, elements uniform in -1…1.
        b: B[K, N], likewise.
        c: C[M, N], row-major, for baselines that write into given memory.
        memory: Kind of host memory of all three.
    """

    a: Matrix
    b: Matrix
    c: Matrix
    memory: Memory

    @property
    def shape(self) -> Shape:
        """M, N, K."""
        return self.a.shape[0], self.b.shape[1], self.a.shape[1]

    @property
    def problem(self) -> GemmProblem:
        """The product to plan."""
        return GemmProblem(*self.shape, self.dtype, self.memory)

    @property
    def dtype(self) -> str:
        """Element type of all three."""
        return self.c.dtype.name


def draw_operands(shape: Shape, dtype: str, seed: int = 0) -> Operands:
    """Random operands in pageable memory; all pages have been touched."""
    m, n, k = shape
    a, b, c = np.empty((m, k), dtype), np.empty((k, n), dtype), np.empty((m, n), dtype)
    for number, matrix in enumerate((a, b)):
        _fill_random(matrix, seed + number)
    poison(c)
    return Operands(a, b, c, "pageable")


def pin_operands(operands: Operands) -> Operands:
    """The same A and B in page-locked memory, and a C there."""
    m, n, k = operands.shape
    a, b, c = (pin_matrix(*size, operands.dtype) for size in ((m, k), (k, n), (m, n)))
    copy_rows(a, operands.a)
    copy_rows(b, operands.b)
    poison(c)
    return Operands(a, b, c, "pinned")


def poison(matrix: Matrix) -> None:
    """Fill with NaN, which no product here contains."""
    map_rows(lambda rows: matrix[rows].fill(np.nan), matrix)


def copy_rows(target: Matrix, source: Matrix, threads: int | None = None) -> None:
    """Copy a matrix by several threads; by default one for each usable core."""
    map_rows(lambda rows: np.copyto(target[rows], source[rows]), target, threads)


def map_rows(act: Callable[[slice], object], matrix: Matrix, threads: int | None = None) -> None:
    """Call `act` for ranges of rows that cover the matrix, in threads."""
    if matrix.nbytes < 2 * _LEAST_BYTES:  # first, because counting the cores takes long
        act(slice(0, matrix.shape[0]))
        return
    count = min(threads or usable_cores(), matrix.nbytes // _LEAST_BYTES)
    with ThreadPoolExecutor(count) as pool:
        list(pool.map(act, cut_rows(len(matrix), -(-len(matrix) // count))))


def cut_rows(rows: int, size: int) -> Iterator[slice]:
    """Ranges of `size` rows, the last one shorter."""
    return (slice(start, min(start + size, rows)) for start in range(0, rows, size))


def _fill_random(matrix: Matrix, seed: int) -> None:
    def fill(rows: slice) -> None:
        part = matrix[rows]
        generator = np.random.Generator(np.random.SFC64([seed, rows.start]))
        generator.random(out=part, dtype=matrix.dtype.type)
        part *= 2
        part -= 1

    map_rows(fill, matrix)
