"""Selects checksums that rounding does not explain; elements of their blocks are compared.

The usual rounding error is estimated from the differences themselves: the median over rows nearby,
as a multiple of the row's size.
"""

from dataclasses import dataclass, replace
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from wavetrim.scheduler.check.checksums import ALONE, WEIGHTS, FactorSums, Workers, sum_magnitudes

Matrix = NDArray[Any]

_SIGMAS: Final = 6.0
"""Standard deviations within which all but about 1 of 10^9 right checksums lie (normal)."""

_SIGMAS_PER_MEDIAN: Final = 1 / 0.6745
"""A normal variable's standard deviation over the median of its size."""

_LEAST_ROUNDINGS: Final = 0.5
"""Least standard deviation, in units of the sums' epsilon: that of one rounding."""

_ALWAYS: Final = 1
"""Blocks that are always compared, those with the largest differences, unless that is costly."""

_CHEAP: Final = 1 << 18
"""Most elements of B that are read for blocks that are always compared: about a millisecond."""

_GROUPED_SUMS: Final = 1 << 11
"""About this number of checksums, in neighbouring rows, have a common limit."""

_SAMPLED_SUMS: Final = 1 << 9
"""Most of these checksums that the median is taken of; it is then right to about 6%."""

_MOST_UNLIKE: Final = 4.0
"""Largest deviation of a group of rows, as a multiple of the usual one; 2.2 was seen on an H200
(float64, 8192)."""

_FEW: Final = 16
"""With more suspects than this, each checksum is rated by the magnitudes of its own terms, not by
its row's size. That doubles the cost. Chosen on `benchmarks.verify`."""

_MOST: Final = 256
"""Most suspects that are compared; chosen on `benchmarks.verify`."""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Checksums that may be wrong.

    Attributes:
        width: Columns of a block.
        wrong: Whether the elements of a block are compared, rows x blocks: those beyond the limit
            (at most 256), those that are not finite, and the largest one if that is cheap.
        limit: Largest right checksum, as a multiple of its row's size: six standard deviations.
    """

    width: int
    wrong: NDArray[np.bool_]
    limit: float


def find_detectable(suspicion: Suspicion) -> float:
    """Least change of an element that shows, as a multiple of its row's root mean square."""
    mean_square = float(np.mean(np.square(WEIGHTS)))
    return 2 * suspicion.limit * float(np.sqrt(suspicion.width * mean_square))


def find_suspects(
    factors: FactorSums,
    a: Matrix,
    b: Matrix,
    c: Matrix | None,
    out: Matrix,
    *,
    alpha: float,
    beta: float,
    workers: Workers = ALONE,
) -> Suspicion:
    """Compare the checksums of `out`, M x N, with those of its factors (see `sum_factors`)."""
    with np.errstate(all="ignore"):
        differences = workers.block_sums.sum(out, factors.weights, factors.width)
        differences -= factors.product
        if factors.added is not None:
            differences -= factors.added
        np.abs(differences, out=differences)
        sized = _Sized.by(differences, factors.sizes)
        if not sized.stand_out and sized.limit <= _bound_rounding(factors):
            return Suspicion(factors.width, np.zeros(differences.shape, np.bool_), sized.limit)
        if sized.stand_out > _FEW:
            # Elements differ much in size, so a row's size says little about one of them.
            terms = sum_magnitudes(factors, a, b, c, alpha=alpha, beta=beta, workers=workers)
            sized = _Sized.by(differences, terms)
            usual = float(np.nanmedian(terms / factors.sizes))
            sized = replace(sized, limit=sized.limit * usual)
        count = min(max(_ALWAYS, sized.stand_out), _MOST)
        return Suspicion(factors.width, sized.find_largest(count), sized.limit)


@dataclass(frozen=True, slots=True)
class _Sized:
    """Differences of checksums, as multiples of their limits.

    Attributes:
        ratios: Rows x blocks; not finite where sums are not.
        limit: The largest limit.
        stand_out: Number of ratios above 1.
    """

    ratios: Matrix
    limit: float
    stand_out: int

    @classmethod
    def by(cls, differences: Matrix, sizes: Matrix) -> Self:
        """Differences over sizes (of each row or each checksum), over their limits."""
        ratios = differences / sizes
        if not np.isfinite(ratios.max()):
            ratios[differences == 0] = 0.0
        limits = _find_limits(ratios)
        ratios /= limits
        return cls(ratios, float(limits.max()), int(np.count_nonzero(ratios > 1)))

    def find_largest(self, count: int) -> NDArray[np.bool_]:
        """Those that are not finite, and the `count` largest others."""
        finite = np.isfinite(self.ratios)
        ranked = np.where(finite, self.ratios, -1.0).ravel()
        largest = np.argpartition(ranked, -min(count, ranked.size))[-count:]
        wrong = ~finite
        wrong.ravel()[largest] = True
        return wrong


def _find_limits(ratios: Matrix) -> Matrix:
    """Limits of ratios: one for each row, as a column.

    Neighbouring rows are computed in the same way; others may be rounded more often, as a GPU sums
    the first panels in parts of K. So each group of rows has its own deviation. It is at most four
    times the usual one, because a wrong panel must not pass as a badly rounded one.
    """
    rows, blocks = ratios.shape
    if not np.isfinite(ratios.max()):
        ratios = np.where(np.isfinite(ratios), ratios, 0.0)
    group_rows = min(rows, -(-_GROUPED_SUMS // blocks))
    groups = rows // group_rows
    grouped = ratios[: groups * group_rows].reshape(groups, group_rows * blocks)
    medians = np.median(grouped[:, :: -(-grouped.shape[1] // _SAMPLED_SUMS)], axis=1)
    usual = np.median(medians)
    medians = np.clip(medians, usual, _MOST_UNLIKE * usual)
    rounding = _LEAST_ROUNDINGS * float(np.finfo(ratios.dtype).eps)
    deviations = np.maximum(_SIGMAS_PER_MEDIAN * medians, rounding)
    places = np.minimum(np.arange(rows) // group_rows, groups - 1)
    limits: Matrix = (_SIGMAS * deviations)[places, None]
    return limits


def _bound_rounding(factors: FactorSums) -> float:
    """The largest limit that √K roundings explain; 0 if comparing a block is cheap.

    A larger limit may mean that all rows are wrong in the same way, so some elements are compared.
    In products up to about N = 2048 they always are, because that is cheap.
    """
    if factors.depth * factors.width <= _CHEAP:
        return 0.0
    eps = float(np.finfo(factors.product.dtype).eps)
    return _SIGMAS * _SIGMAS_PER_MEDIAN * float(np.sqrt(factors.depth)) * eps
