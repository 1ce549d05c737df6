"""Checksums that rounding does not explain: which blocks of a product are compared.

How much rounding is usual is told from the differences themselves, as a multiple of the row's size
that is the median of those of the rows around.
"""

from dataclasses import dataclass, replace
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from wavetrim.scheduler.check.checksums import ALONE, WEIGHTS, FactorSums, Workers, sum_magnitudes

Matrix = NDArray[Any]

_SIGMAS: Final = 6.0
"""Standard deviations that a right checksum stays within, but for about one in 10^9 (normal)."""

_SIGMAS_PER_MEDIAN: Final = 1 / 0.6745
"""A normal variable's standard deviation over the median of its size."""

_LEAST_ROUNDINGS: Final = 0.5
"""The least deviation that is believed, in units of the sums' rounding: that of one rounding."""

_ALWAYS: Final = 1
"""So many blocks, those that stand out most, are compared in any case, unless that is dear."""

_CHEAP: Final = 1 << 18
"""Elements of B, at most, that are read to compare a block in any case: about a millisecond's."""

_GROUPED_SUMS: Final = 1 << 11
"""Checksums, about, of the rows that have a limit in common."""

_SAMPLED_SUMS: Final = 1 << 9
"""Those among them, at most, of which the median is taken: it is right to about 6%."""

_MOST_UNLIKE: Final = 4.0
"""So many times the usual deviation a group of rows may have; 2.2 was seen (H200, float64,
8192)."""

_FEW: Final = 16
"""With more suspects each checksum is compared with the magnitudes of its own terms instead of its
row's size, which costs as much again; chosen on `benchmarks.verify.damage`."""

_MOST: Final = 256
"""Most suspects that are compared; chosen on `benchmarks.verify.damage`."""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Checksums that may be wrong.

    Attributes:
        width: Columns of a block.
        wrong: Which are to be looked into, row by block: those beyond the limit (256 of them at
            most), those that are not finite, and, where that is cheap, the largest.
        limit: What a checksum may be in units of its row's size: six standard deviations.
    """

    width: int
    wrong: NDArray[np.bool_]
    limit: float


def find_detectable(suspicion: Suspicion) -> float:
    """A change of an element that its checksum shows, in units of its row's root mean square."""
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
            # Elements of very different sizes: a row's size says little of each of them.
            terms = sum_magnitudes(factors, a, b, c, alpha=alpha, beta=beta, workers=workers)
            sized = _Sized.by(differences, terms)
            usual = float(np.nanmedian(terms / factors.sizes))
            sized = replace(sized, limit=sized.limit * usual)
        count = min(max(_ALWAYS, sized.stand_out), _MOST)
        return Suspicion(factors.width, sized.find_largest(count), sized.limit)


@dataclass(frozen=True, slots=True)
class _Sized:
    """The differences of checksums, in units of what each may be.

    Attributes:
        ratios: Row by block; not finite where the sums are not.
        limit: The largest unit.
        stand_out: How many are above 1.
    """

    ratios: Matrix
    limit: float
    stand_out: int

    @classmethod
    def by(cls, differences: Matrix, sizes: Matrix) -> Self:
        """Differences over sizes, which all or each row's have in common, over their limits."""
        ratios = differences / sizes
        if not np.isfinite(ratios.max()):
            ratios[differences == 0] = 0.0
        limits = _find_limits(ratios)
        ratios /= limits
        return cls(ratios, float(limits.max()), int(np.count_nonzero(ratios > 1)))

    def find_largest(self, count: int) -> NDArray[np.bool_]:
        """Which are not finite, and so many of the others, the largest."""
        finite = np.isfinite(self.ratios)
        ranked = np.where(finite, self.ratios, -1.0).ravel()
        largest = np.argpartition(ranked, -min(count, ranked.size))[-count:]
        wrong = ~finite
        wrong.ravel()[largest] = True
        return wrong


def _find_limits(ratios: Matrix) -> Matrix:
    """What is beyond this stands out: a limit for each row, as a column.

    Rows that lie together are computed alike, others may be rounded more often: a GPU sums the
    first panels in parts of K, for instance. So a group of rows may have a larger deviation than
    usual. It is believed up to four times the usual one, lest a panel that is wrong from end to end
    should look like a badly rounded one.
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
    """The highest limit that rounding explains by itself, as √K roundings do.

    Beyond it all rows may be wrong alike, and some are compared whatever their checksums say.
    Products up to N = 2048 or so are always compared, which costs little there.
    """
    if factors.depth * factors.width <= _CHEAP:
        return 0.0
    eps = float(np.finfo(factors.product.dtype).eps)
    return _SIGMAS * _SIGMAS_PER_MEDIAN * float(np.sqrt(factors.depth)) * eps
