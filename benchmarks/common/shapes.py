"""Shapes of products, and their names."""

from dataclasses import dataclass
from typing import Final

import numpy as np

DTYPES: Final = ("float32", "float64")

Shape = tuple[int, int, int]
"""M, N, K."""


def make_cube(size: int) -> Shape:
    """M = N = K."""
    return size, size, size


def read_shape(text: str) -> Shape:
    """M, N and K of "MxNxK"."""
    m, n, k = map(int, text.split("x"))
    return m, n, k


def name_shape(shape: Shape) -> str:
    """A shape as people write it: "4096³" or "8192×512×4096"."""
    m, n, k = shape
    return f"{m}³" if m == n == k else f"{m}×{n}×{k}"


def count_flops(shape: Shape) -> int:
    """Multiplications and additions of a product."""
    m, n, k = shape
    return 2 * m * n * k


@dataclass(frozen=True, slots=True)
class Product:
    """A product, and the first figures of every row about one.

    Attributes:
        m: Rows of C.
        n: Columns of C.
        k: Columns of A.
        dtype: Element type.
    """

    m: int
    n: int
    k: int
    dtype: str

    @property
    def shape(self) -> Shape:
        """M, N, K."""
        return self.m, self.n, self.k

    @property
    def is_cube(self) -> bool:
        """Whether M = N = K."""
        return self.m == self.n == self.k

    @property
    def size_bytes(self) -> int:
        """Bytes of A, B and C together."""
        m, n, k = self.shape
        return (m * k + k * n + m * n) * np.dtype(self.dtype).itemsize

    @property
    def name(self) -> str:
        """Its name in the log and in the list of what was left out: "4096³ float32"."""
        return f"{name_shape(self.shape)} {self.dtype}"
