"""Verifies a product without computing all of it again.

Checksums of all rows over blocks of columns are compared with those of the factors (`checksums`;
`integer_checksums` for integers). Complex products are read as real ones (`real_parts`). If a
difference exceeds its limit (`suspects`) or is not finite, the elements of its block are computed
again and compared one by one (`elements`), which decides. Unless the product is large, the block
with the largest difference is always compared.

Each check draws new random weights, so that no error can fit them.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wavetrim.native.element_types import find_accumulator, is_integer
from wavetrim.scheduler.check.checksums import ALONE, FactorSums, Workers, find_caught, sum_factors
from wavetrim.scheduler.check.elements import Comparison, compare_elements, compare_scaled
from wavetrim.scheduler.check.integer_checksums import VECTORS, find_wrong_rows
from wavetrim.scheduler.check.real_parts import view_real
from wavetrim.scheduler.check.rounding import FloatProduct
from wavetrim.scheduler.check.suspects import find_detectable, find_suspects
from wavetrim.scheduler.errors import VerificationFailed

Matrix = NDArray[Any]


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
        a: M x K; not read if `alpha` is 0.
        b: K x N, likewise.
        c: M x N, C before the product; not read if `beta` is 0.
        out: M x N, the product.
        alpha: Factor of the product; a whole number for integers.
        beta: Factor of C, likewise.
        seed: Seed of the weights; None for a random one.
        workers: Sum and multiply; by default the calling thread.
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
        self._a, self._b, self._out = view_real(a), b, out
        self._c = view_real(c) if c is not None and beta != 0 else None
        self._alpha, self._beta = alpha, beta
        self._random = np.random.default_rng(seed)
        self._workers = workers
        self._sums: FactorSums | None = None

    def sum_factors(self) -> None:
        """Compute the checksums of the factors, most of the work. Does not read `out`."""
        if self._is_exact or self._is_scaled:
            return
        product = self._describe()
        self._sums = sum_factors(
            self._a, self._b, self._c, alpha=product.alpha, beta=product.beta,
            dtype=self._out.real.dtype, random=self._random, workers=self._workers,
        )  # fmt: skip

    def compare(self) -> Verification:
        """Compare the computed product with the checksums of its factors."""
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
            self._sums, self._a, self._b, self._c, product.out,
            alpha=product.alpha, beta=product.beta, workers=self._workers,
        )  # fmt: skip
        return _conclude(
            compare_elements(product, suspicion),
            covered=size,
            detectable=find_detectable(suspicion),
            caught=find_caught(suspicion.width, product.out.shape[1]),
        )

    @property
    def _is_exact(self) -> bool:
        return is_integer(self._out.dtype)

    @property
    def _is_scaled(self) -> bool:
        """Whether the product is βC: α or K is 0."""
        return self._alpha == 0 or self._a.shape[1] == 0

    def _describe(self) -> FloatProduct:
        out = view_real(self._out)
        kind = find_accumulator(out.dtype).type
        with np.errstate(all="ignore"):
            alpha, beta = float(kind(self._alpha)), float(kind(self._beta))
        return FloatProduct(self._a, self._b, self._c, out, alpha, beta)

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
