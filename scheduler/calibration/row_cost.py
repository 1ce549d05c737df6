"""Fits the cost of a row on the CPU to measured products: its arithmetic and its elements of C."""

from dataclasses import dataclass
from typing import Final

_LEAST_ELEMENT_SECONDS: Final = 1e-12
_LEAST_FLOP_SHARE: Final = 0.5
"""Bounds for noisy measurements: least cost of an element, and least share of arithmetic at the
larger K; chosen."""


@dataclass(frozen=True, slots=True)
class RowCost:
    """A row of N elements costs N (2 K flop_seconds + element_seconds).

    Attributes:
        flop_seconds: Seconds of an operation, more than 0.
        element_seconds: Seconds of an element of C for any K, more than 0.
    """

    flop_seconds: float
    element_seconds: float


def fit_row_cost(n: int, deep: tuple[int, float], shallow: tuple[int, float]) -> RowCost:
    """Both costs of a row, from its seconds at two K.

    Args:
        n: Columns of C.
        deep: The larger K, and the seconds of a row with it.
        shallow: The smaller K, and the seconds of a row with it.
    """
    (deep_k, deep_seconds), (shallow_k, shallow_seconds) = deep, shallow
    most = deep_seconds / (2 * n * deep_k)
    flop_seconds = (deep_seconds - shallow_seconds) / (2 * n * (deep_k - shallow_k))
    flop_seconds = min(max(flop_seconds, _LEAST_FLOP_SHARE * most), most)
    element_seconds = shallow_seconds / n - 2 * shallow_k * flop_seconds
    return RowCost(flop_seconds, max(element_seconds, _LEAST_ELEMENT_SECONDS))
