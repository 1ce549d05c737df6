"""The check of a product, by new random weights each time, which no error can fit."""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from wavetrim.cpu.gemm import CpuPool
from wavetrim.native.element_types import is_integer, round_factor
from wavetrim.native.plain import Matrix
from wavetrim.scheduler.check.checksums import VECTORS, WEIGHTS, Checksums, find_wrong_rows
from wavetrim.scheduler.check.elements import compare_elements
from wavetrim.scheduler.errors import VerificationFailed
from wavetrim.scheduler.product import EngineProduct


@dataclass(frozen=True, slots=True)
class Verification:
    """Outcome of the check.

    Attributes:
        passed: Whether `max_error` is within `tolerance`.
        max_error: Largest error of the elements that were computed again, as a multiple of that
            allowed for rounding; for integers the number of wrong rows.
        tolerance: Largest allowed `max_error`: 1 for floats, 0 for integers.
        elements_checked: Elements that the checksums cover: all of C.
        elements_compared: Elements that were computed again and compared one by one.
        detectable_change: Least change of one element that is always caught, as a multiple of the
            root mean square of its row, if the columns of B have about the same size; 0 if every
            change is caught.
        caught_probability: Probability that two equal changes anywhere in a row are caught, each
            four times as large; for integers, that any changes of a row are caught.
        wrong_rows: Wrong rows, in order; if the product passes, those that were computed again.
        recomputed_on: Devices that computed these again: "cpu", "gpu" or "cpu and gpu"; None if
            there are none.
        seconds: Seconds of the check and of computing again, after the product.
    """

    passed: bool
    max_error: float
    tolerance: float
    elements_checked: int
    elements_compared: int
    detectable_change: float
    caught_probability: float
    wrong_rows: tuple[int, ...]
    recomputed_on: str | None = None
    seconds: float = 0.0

    def require(self) -> None:
        """Raise an error unless the product passed.

        Raises:
            VerificationFailed: It did not pass.
        """
        if not self.passed:
            raise VerificationFailed(
                f"max_error is {self.max_error:.6g}; it must be at most {self.tolerance:.6g} "
                f"({self.elements_checked} elements checked, {len(self.wrong_rows)} rows wrong, "
                f"the first is row {self.wrong_rows[0]})"
            )

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready copy; `wrong_rows` is their number."""
        return {**asdict(self), "wrong_rows": len(self.wrong_rows)}


class ProductCheck:
    """A check in two parts; the first may run while the product is computed.

    Args:
        product: The product. A and B are not read if alpha is 0, nor C if beta is.
        pool: Has the threads; None for the calling thread.
    """

    def __init__(self, product: EngineProduct, pool: CpuPool | None = None) -> None:
        alpha, beta = (round_factor(f, product.out.dtype) for f in (product.alpha, product.beta))
        a, b = product.a, product.b
        if alpha == 0:
            a, b = a[:, :0], b[:0]
        c = None if beta == 0 else product.c
        self._product = replace(product, a=a, b=b, c=c, alpha=alpha, beta=beta)
        self._random = np.random.default_rng()
        self._pool = pool
        self._sums: Checksums | None = None

    def sum_factors(self) -> None:
        """Compute the checksums of the factors, most of the work. Does not read `out`."""
        if not is_integer(self._product.out.dtype):
            self._sums = Checksums(self._product, self._random, self._pool)

    def compare(self) -> Verification:
        """Compare the computed product with the checksums of its factors."""
        out = self._product.out
        if self._sums is None:
            self.sum_factors()
        if self._sums is None:
            wrong = find_wrong_rows(self._product, self._random, self._pool)
            caught = 1 - 0.5 ** (VECTORS - 1)
            return Verification(not wrong, float(len(wrong)), 0.0, out.size, 0, 0.0, caught, wrong)
        width, (suspects, limit) = self._sums.width, self._sums.find_suspects()
        compared, error, wrong = compare_elements(self._product, suspects, width)
        detectable = 2 * limit * float(np.sqrt(width * np.mean(np.square(WEIGHTS))))
        caught = 1 - (width - 1) / (len(WEIGHTS) * max(1, out.shape[1] - 1))
        return Verification(not wrong, error, 1.0, out.size, compared, detectable, caught, wrong)


def verify_product(
    a: Matrix,
    b: Matrix,
    c: Matrix | None,
    out: Matrix,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
) -> Verification:
    """Check that `out` is αA·B + βC, in the calling thread."""
    return ProductCheck(EngineProduct(a, b, c, out, alpha, beta)).compare()
