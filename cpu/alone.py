"""Small products, which one thread computes before others would be awake."""

from functools import lru_cache
from typing import Final

import numpy as np

from wavetrim.cpu.blocks import can_share
from wavetrim.cpu.products import Matrix, combine, scale

_MOST_TERMS: Final = 1 << 16
"""Of products that BLAS does not compute NumPy takes a nanosecond a term, the pool of threads 60
microseconds to begin: those of fewer terms are small."""


@lru_cache(maxsize=1024)
def is_small(m: int, n: int, k: int, dtype: str) -> bool:
    """Whether NumPy, in the calling thread, is the CPU's fastest way to a product.

    Args:
        m: Rows of the product.
        n: Columns of the product.
        k: Columns of A and rows of B.
        dtype: NumPy's name of the element type.
    """
    return not can_share(m, n, k) if dtype in ("float32", "float64") else m * n * k <= _MOST_TERMS


def multiply_alone(a: Matrix, b: Matrix, c: Matrix, *, alpha: float, beta: float) -> None:
    """C ← αA·B + βC in the calling thread, as BLAS does it: β = 0 never reads C, α = 0 no operand.

    Args:
        a: A[M,K], any strides, or a stack of matrices by NumPy's rules.
        b: B[K,N], likewise.
        c: C[M,N], likewise, writable. It may share memory with A or B where β is 0.
        alpha: Factor of the product; a whole number for integers.
        beta: Factor of C; a whole number for integers.
    """
    with np.errstate(all="ignore"):
        if alpha == 0:
            scale(c, beta)
        elif alpha == 1 and beta == 0:
            np.matmul(a, b, out=c)
        else:
            combine(np.asarray(np.matmul(a, b)), c, alpha=alpha, beta=beta)
