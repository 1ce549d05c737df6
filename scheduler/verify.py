"""Proves a product right without computing it again.

Checksums of all rows, over blocks of columns, are compared with those of the factors (see
`checksums`, and `integer_checksums` for integers). Where one stands out, or is not finite, its
elements are computed again and compared one by one (see `elements`), and these decide. The
block that stands out most is compared in any case.

All weights are drawn anew for each check, so that no error can fit them.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wavetrim.scheduler.checksums import find_caught, find_detectable, find_suspects
from wavetrim.scheduler.elements import (
    FloatProduct,
    compare_elements,
    compare_scaled,
    find_accumulator,
)
from wavetrim.scheduler.errors import VerificationFailed
from wavetrim.scheduler.integer_checksums import VECTORS, find_wrong_rows

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
        wrong_rows: Rows that are wrong, in order.
    """

    passed: bool
    max_error: float
    tolerance: float
    elements_checked: int
    elements_compared: int
    detectable_change: float
    caught_probability: float
    wrong_rows: tuple[int, ...]

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
    """Check that `out` is αA·B + βC.

    Args:
        a: M x K; not read when `alpha` is 0.
        b: K x N, likewise.
        c: M x N, the C before the product; not read when `beta` is 0.
        out: M x N, the product to be checked.
        alpha: Factor of the product.
        beta: Factor of C.
        seed: Seed of the weights; a fresh one where it is left out.
    """
    random = np.random.default_rng(seed)
    before = c if beta != 0 else None
    if np.issubdtype(out.dtype, np.integer):
        wrong = find_wrong_rows(a, b, before, out, alpha=int(alpha), beta=int(beta), random=random)
        caught = 1 - 0.5 ** (VECTORS - 1)
        return Verification(not wrong, float(len(wrong)), 0.0, out.size, 0, 0.0, caught, wrong)
    kind = find_accumulator(out).type
    with np.errstate(all="ignore"):
        product = FloatProduct(a, b, before, out, float(kind(alpha)), float(kind(beta)))
    if alpha == 0 or a.shape[1] == 0:
        compared, detectable, caught = compare_scaled(product), 0.0, 1.0
    else:
        suspicion = find_suspects(
            a, b, before, out, alpha=product.alpha, beta=product.beta, random=random
        )
        compared = compare_elements(product, suspicion)
        detectable = find_detectable(suspicion)
        caught = find_caught(suspicion.width, out.shape[1])
    return Verification(
        not compared.wrong_rows, compared.max_error, 1.0, out.size, compared.compared,
        detectable, caught, compared.wrong_rows,
    )  # fmt: skip
