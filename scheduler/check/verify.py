"""Proves a product right without computing it again.

Checksums of all rows, over blocks of columns, are compared with those of the factors (see
`checksums`, and `integer_checksums` for integers). Where one stands out (see `suspects`), or is not
finite, its elements are computed again and compared one by one (see `elements`), and these decide.
The block that stands out most is compared in any case, unless the product is large.

All weights are drawn anew for each check, so that no error can fit them.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wavetrim.scheduler.check.checksums import ALONE, FactorSums, Workers, find_caught, sum_factors
from wavetrim.scheduler.check.elements import (
    Comparison,
    FloatProduct,
    compare_elements,
    compare_scaled,
    find_accumulator,
)
from wavetrim.scheduler.check.integer_checksums import VECTORS, find_wrong_rows
from wavetrim.scheduler.check.suspects import find_detectable, find_suspects
from wavetrim.scheduler.errors import VerificationFailed

Matrix = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Verification:
    """Outcome of the check.

    Attributes:
        passed: Whether `max_error` is within `tolerance`.
        max_error: Largest error of the elements that were computed again, in units of what rounding
            explains; for integers the number of rows that differ.
        tolerance: What it may be: 1 for floats, 0 for integers.
        elements_checked: Elements that the checksums cover: all of C.
        elements_compared: Elements among them that were computed again, and compared one by one.
        detectable_change: A change of one element that is larger is caught, in units of the root
            mean square of the element's row, if the columns of B are of one size; 0 where every
            change is.
        caught_probability: With which two equal changes anywhere in a row are caught, if each is
            four times as large; for integers any changes of a row.
        wrong_rows: Rows that are wrong, in order; of a product that passes, those that were wrong
            until they were computed again.
        recomputed_on: Where these were computed again: "cpu", "gpu" or "cpu and gpu"; None where
            none was.
        seconds: What the check, and computing again, took after the product.
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
        """Accept no product that did not pass.

        Raises:
            VerificationFailed: It did not.
        """
        if not self.passed:
            raise VerificationFailed(
                f"max_error is {self.max_error:.6g}; it must be at most {self.tolerance:.6g} "
                f"({self.elements_checked} elements checked, {len(self.wrong_rows)} rows wrong, "
                f"the first is row {self.wrong_rows[0]})"
            )

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready copy: how many rows are wrong instead of which."""
        return {**asdict(self), "wrong_rows": len(self.wrong_rows)}


class ProductCheck:
    """A check in two parts, the first of which may run while the product is computed.

    Args:
        a: M x K; not read when `alpha` is 0.
        b: K x N, likewise.
        c: M x N, the C before the product; not read when `beta` is 0.
        out: M x N, the product to be checked.
        alpha: Factor of the product; a whole number for integers.
        beta: Factor of C, likewise.
        seed: Seed of the weights; fresh ones are drawn where it is left out.
        workers: Sum the rows; the calling thread where they are left out.
    """

    def __init__(
        self,
        a: Matrix,
        b: Matrix,
        c: Matrix | None,
        out: Matrix,
        *,
        alpha: float = 1.0,
        beta: float = 0.0,
        seed: int | None = None,
        workers: Workers = ALONE,
    ) -> None:
        self._a, self._b, self._out = a, b, out
        self._c = c if beta != 0 else None
        self._alpha, self._beta = alpha, beta
        self._random = np.random.default_rng(seed)
        self._workers = workers
        self._sums: FactorSums | None = None

    def sum_factors(self) -> None:
        """Find the checksums of a right product, most of the work. Does not read `out`."""
        if self._is_exact or self._is_scaled:
            return
        product = self._describe()
        self._sums = sum_factors(
            self._a, self._b, self._c, alpha=product.alpha, beta=product.beta,
            dtype=self._out.dtype, random=self._random, workers=self._workers,
        )  # fmt: skip

    def compare(self) -> Verification:
        """Compare the product, which is there by now, with its checksums."""
        if self._is_exact:
            return self._compare_exactly()
        product, size = self._describe(), self._out.size
        if self._is_scaled:
            found = compare_scaled(product)
            return _conclude(found, covered=size, detectable=0.0, caught=1.0)
        if self._sums is None:
            self.sum_factors()
        assert self._sums is not None, "sum_factors has made them"
        suspicion = find_suspects(
            self._sums, self._a, self._b, self._c, self._out,
            alpha=product.alpha, beta=product.beta, workers=self._workers,
        )  # fmt: skip
        return _conclude(
            compare_elements(product, suspicion),
            covered=size,
            detectable=find_detectable(suspicion),
            caught=find_caught(suspicion.width, self._out.shape[1]),
        )

    @property
    def _is_exact(self) -> bool:
        return bool(np.issubdtype(self._out.dtype, np.integer))

    @property
    def _is_scaled(self) -> bool:
        """Whether the product is βC, without terms of A·B."""
        return self._alpha == 0 or self._a.shape[1] == 0

    def _describe(self) -> FloatProduct:
        kind = find_accumulator(self._out).type
        with np.errstate(all="ignore"):
            alpha, beta = float(kind(self._alpha)), float(kind(self._beta))
        return FloatProduct(self._a, self._b, self._c, self._out, alpha, beta)

    def _compare_exactly(self) -> Verification:
        wrong = find_wrong_rows(
            self._a, self._b, self._c, self._out,
            alpha=int(self._alpha), beta=int(self._beta), random=self._random,
        )  # fmt: skip
        caught = 1 - 0.5 ** (VECTORS - 1)
        return Verification(
            not wrong, float(len(wrong)), 0.0, self._out.size, 0, 0.0, caught, wrong
        )


def _conclude(
    compared: Comparison, *, covered: int, detectable: float, caught: float
) -> Verification:
    return Verification(
        not compared.wrong_rows, compared.max_error, 1.0, covered, compared.compared,
        detectable, caught, compared.wrong_rows,
    )  # fmt: skip


def verify_product(
    a: Matrix,
    b: Matrix,
    c: Matrix | None,
    out: Matrix,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    seed: int | None = None,
) -> Verification:
    """Check that `out` is αA·B + βC; the arguments are those of `ProductCheck`."""
    return ProductCheck(a, b, c, out, alpha=alpha, beta=beta, seed=seed).compare()
