"""Random operands, and lists of numbers."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wavetrim.scheduler.errors import FieldError
from wavetrim.scheduler.problem import GemmProblem

Matrix = NDArray[Any]


def draw_operands(problem: GemmProblem) -> tuple[Matrix, Matrix]:
    """A[M, K] and B[K, N] with elements uniform in -1…1, the same in every run."""
    a = draw_matrix(problem.m, problem.k, problem.dtype, seed=1)
    return a, draw_matrix(problem.k, problem.n, problem.dtype, seed=2)


def draw_matrix(rows: int, columns: int, dtype: str, *, seed: int) -> Matrix:
    """A row-major matrix with elements uniform in -1…1."""
    drawn = np.random.default_rng(seed).random((rows, columns), np.float32)
    return (2 * drawn - 1).astype(dtype, copy=False)


def pad_matrix(
    matrix: Matrix, leading_dimension: int | None, name: str, *, fill: float
) -> tuple[Matrix, Matrix]:
    """Copy a matrix into memory with padded rows; return the copy and the whole memory.

    Args:
        matrix: The matrix.
        leading_dimension: Leading dimension in elements; None for 16 more than the columns.
        name: Name of the leading dimension, for the error.
        fill: Value of the padding.
    """
    rows, columns = matrix.shape
    width = columns + 16 if leading_dimension is None else leading_dimension
    if width < columns:
        raise FieldError(name, width, f"at least {columns}, the columns")
    memory = np.full((rows, width), fill, matrix.dtype)
    memory[:, :columns] = matrix
    return memory[:, :columns], memory


def read_numbers(option: str, text: str, *, least: int = 1) -> tuple[int, ...]:
    """Whole numbers from a list with commas, each once."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() and int(word) >= least for word in words):
        raise FieldError(option, text, f"whole numbers of at least {least} with commas between")
    return tuple(dict.fromkeys(map(int, words)))
