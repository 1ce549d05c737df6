"""Freivalds' check of a product: C·x against A(B·x), for one vector x of ±1.

It takes MN + MK + KN multiply-adds, so products of any size can be checked. (R. Freivalds,
Probabilistic machines can use less running time, 1977.)
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.common.operands import Matrix, Operands, map_rows

_RMS: Final = 1 / 3
"""Root mean square of a product of two elements that are uniform in -1…1."""

_SAFETY: Final = 16.0
"""Largest allowed error over the usual one; chosen."""


class FreivaldsCheck:
    """A(B·x) of two operands, to be compared with C·x."""

    def __init__(self, operands: Operands) -> None:
        _, n, k = operands.shape
        self._x = np.random.default_rng(0).choice((-1.0, 1.0), n)
        self._expected = _project(operands.a, _project(operands.b, self._x))
        eps = float(np.finfo(operands.dtype).eps)
        self.tolerance: float = _SAFETY * eps * _RMS * (n * k) ** 0.5 * (n**0.5 + k**0.5)

    def find_error(self, product: Matrix) -> float:
        """The largest difference of a row of C·x, over `tolerance`; not finite if C is not.

        Differences by rounding grow as √(NK)·(√N + √K). They are larger if a few columns were not
        written, or operands were rounded to fewer bits.
        """
        if product.shape[0] != self._expected.shape[0] or product.shape[1] != self._x.shape[0]:
            return float("inf")
        x = self._x.astype(product.dtype)
        found: NDArray[np.float64] = np.empty(product.shape[0])

        def project(rows: slice) -> None:
            found[rows] = product[rows] @ x

        map_rows(project, product)
        return float(np.max(np.abs(found - self._expected))) / self.tolerance


def _project(matrix: Matrix, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Matrix · x in float64, by all cores."""
    result: NDArray[np.float64] = np.empty(matrix.shape[0])

    def project(rows: slice) -> None:
        step = max(1, 2**21 // matrix.shape[1])
        for start in range(rows.start, rows.stop, step):
            part: Any = matrix[start : min(start + step, rows.stop)]
            result[start : start + part.shape[0]] = part.astype(np.float64) @ x

    map_rows(project, matrix)
    return result
