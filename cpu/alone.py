"""Small products (`blocks.is_small`), which one thread computes before others would be awake."""

import numpy as np

from wavetrim.cpu.products import Matrix, combine, scale


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
