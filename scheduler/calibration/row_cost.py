"""What a row costs the CPU: its arithmetic, which grows with K, and writing it, which does not."""

from dataclasses import dataclass
from typing import Final

_LEAST_ELEMENT_SECONDS: Final = 1e-12
_LEAST_FLOP_SHARE: Final = 0.5


@dataclass(frozen=True, slots=True)
class RowCost:
    """A row of N elements costs N (2 K flop_seconds + element_seconds).

    Attributes:
        flop_seconds: Of one operation, more than 0.
        element_seconds: Of one element of C however short K is, more than 0.
    """

    flop_seconds: float
    element_seconds: float


def fit_row_cost(n: int, deep: tuple[int, float], shallow: tuple[int, float]) -> RowCost:
    """Both costs from the seconds of a row at two K.

    What two measurements leave open by their noise stays within bounds: an element costs nothing
    or more by itself, and the arithmetic at least half of the row at the larger K.

    Args:
        n: Columns of C.
        deep: The larger K, and the seconds of a row there.
        shallow: The smaller one, likewise.
    """
    (deep_k, deep_seconds), (shallow_k, shallow_seconds) = deep, shallow
    most = deep_seconds / (2 * n * deep_k)
    flop_seconds = (deep_seconds - shallow_seconds) / (2 * n * (deep_k - shallow_k))
    flop_seconds = min(max(flop_seconds, _LEAST_FLOP_SHARE * most), most)
    element_seconds = shallow_seconds / n - 2 * shallow_k * flop_seconds
    return RowCost(flop_seconds, max(element_seconds, _LEAST_ELEMENT_SECONDS))
