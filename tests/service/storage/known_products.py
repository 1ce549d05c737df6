"""Products whose every element is known without computing them.

Each matrix is a column times a row of small integers, so A·B is one, too: sums stay below 2^24 and
are exact in any order, in float32 as well. The integers are drawn from the request's number: a byte
of another request's shows as a wrong element.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tests.server import encode_npy

Array = NDArray[Any]

LARGEST: Final = 512
"""Most rows, columns and depth: 2 MiB in float64."""

_LARGE: Final = 256
_SMALLEST: Final = 2


@dataclass(frozen=True, slots=True)
class KnownProduct:
    """Operands and what their product is.

    Attributes:
        parts: The .npy files of A, B and, where beta is not 0, C.
        answer: The .npy file of the product.
        query: The query that asks for it.
    """

    parts: tuple[bytes, ...]
    answer: bytes
    query: str

    @property
    def body(self) -> bytes:
        """All files, one after the other."""
        return b"".join(self.parts)


def make_product(random: np.random.Generator) -> KnownProduct:
    """A product of a random shape: most are small, some have matrices of 2 MiB."""
    rows, depth, columns = draw_shape(random)
    dtype = "float32" if random.random() < 0.5 else "float64"
    left, right = draw_factors(random, rows, dtype), draw_factors(random, columns, dtype)
    along, down = random.integers(-3, 4, (2, depth)).astype(dtype)
    a, b = np.outer(left, along), np.outer(down, right)
    answer = np.outer(left * (along @ down), right)
    parts, query = [encode_npy(a), encode_npy(b)], ""
    if random.random() < 0.3:
        c = np.outer(draw_factors(random, rows, dtype), draw_factors(random, columns, dtype))
        answer = 2 * answer - c
        parts.append(encode_npy(c))
        query = "alpha=2&beta=-1"
    return KnownProduct(tuple(parts), encode_npy(answer), query)


def draw_shape(random: np.random.Generator) -> tuple[int, int, int]:
    """Rows, depth and columns: each of any magnitude, or all of them large."""
    smallest = _LARGE if random.random() < 0.1 else _SMALLEST
    sizes = np.exp(random.uniform(np.log(smallest), np.log(LARGEST + 1), 3))
    rows, depth, columns = (int(size) for size in sizes)
    return rows, depth, columns


def draw_factors(random: np.random.Generator, count: int, dtype: str) -> Array:
    """Integers from 1 to 9: no element of a product is zero by chance alone."""
    return random.integers(1, 10, count).astype(dtype)
