"""The runs of one device, and what they say of another product: a robust local estimate.

The estimate has three steps, in logarithms of measured over predicted seconds. Of a class's runs
the lower quartile counts: other work makes runs longer, and never shorter. The first step is the
median of the classes nearby, each weighted by its runs and its distance, and drawn towards no
correction. The second draws it towards the product's runs with other kernels, so that a kernel does
not seem fast only because it never ran. The third draws it towards its own runs. A first run counts
only among those nearby: it may be an outlier. How many runs the prediction itself counts as is the
`Prior`.
"""

import math
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wavetrim.scheduler.model.corrections import RunClass

REACH: Final = math.log(4.0)
"""Distance from which a class has no weight: a quarter or four times the seconds. Weights fall
linearly to there. Chosen: 0.6 to 1.3 times as much gave the same error on 230 products (H200)."""

UNLIKE: Final = 0.3
"""Weight of runs with another bottleneck, and, for a part of a split, of runs of its device alone.
Chosen: from 0.1 to 0.6 the error changes by less than half a percentage point."""

WEIGHED_RUNS: Final = 3
"""Most runs that count in a class's weight, so that no product outweighs all others; chosen."""

KEPT_RUNS: Final = 15
"""Runs of a class that are kept, the newest, for its lower quartile; chosen."""

KEPT_CLASSES: Final = 256
"""Classes of a device that are kept; the one that ran longest ago is dropped first; chosen."""


class Prior(NamedTuple):
    """How much a prediction counts, in runs.

    Attributes:
        nearby: Against the classes nearby.
        own: What these say, against the product's own runs.
    """

    nearby: float
    own: float


ASSUMED: Final = Prior(1, 1)
CALIBRATED: Final = Prior(12, 3)
"""Of a data sheet's figures, and of a calibration's. Chosen: a calibration is off by less, so runs
that differ by noise would make it worse. Replayed with such noise, the corrected predictions of 164
products (H200) are off by 9 and 54 % with the second, by 12 and 78 % with the first (median and
95th percentile); without corrections by 9 and 45 %."""


class Estimate(NamedTuple):
    """Logarithm of a factor, and the runs that it is from."""

    log_ratio: float
    runs: int


class DeviceRuns:
    """Log ratios by class, in columns, so that an estimate takes microseconds.

    Args:
        prior: What the predictions count as.
    """

    def __init__(self, prior: Prior = ASSUMED) -> None:
        self._prior = prior
        self._places: dict[RunClass, int] = {}  # the newest last
        self._ratios: list[deque[float]] = []
        self._seconds, self._quartiles = np.zeros((2, KEPT_CLASSES))
        self._runs = np.zeros(KEPT_CLASSES)
        # Texts as their hashes, which NumPy compares at once.
        self._beside, self._bottlenecks, self._products = np.zeros((3, KEPT_CLASSES), np.int64)

    def add(self, run_class: RunClass, ratio: float) -> None:
        """Record the log ratio of a run."""
        place = self._places.pop(run_class, None)
        if place is None:
            place = self._make_place(run_class)
        self._places[run_class] = place
        ratios = self._ratios[place]
        ratios.append(ratio)
        self._quartiles[place], self._runs[place] = find_lower_quartile(ratios), len(ratios)

    def list_ratios(self) -> list[tuple[RunClass, tuple[float, ...]]]:
        """The kept log ratios of each class."""
        return [(one, tuple(self._ratios[place])) for one, place in self._places.items()]

    def estimate(self, run_class: RunClass) -> Estimate:
        """What runs say of a class."""
        kept = len(self._ratios)
        quartiles, runs = self._quartiles[:kept], self._runs[:kept]
        same_part = self._find_equal(self._beside, run_class.beside)
        same_bottleneck = self._find_equal(self._bottlenecks, run_class.bottleneck)
        weights = self._find_closeness(run_class)
        weights *= np.minimum(runs, WEIGHED_RUNS)
        weights *= same_bottleneck * (1 - UNLIKE) + UNLIKE
        likeness = same_part * 1.0
        if run_class.beside:
            # What a device took alone is a first guess for its part of a split.
            likeness += self._find_equal(self._beside, "") * UNLIKE
        weights *= likeness
        total = weights.sum()
        drawn = total / (total + self._prior.nearby)
        log_ratio = find_weighted_median(quartiles, weights) * drawn if total else 0.0
        same_product = same_part & self._find_equal(self._products, run_class.product)
        with_others = np.minimum(runs - 1, WEIGHED_RUNS) * (same_product & ~same_bottleneck)
        for own_weights in (with_others, (runs - 1) * (same_product & same_bottleneck)):
            prior = self._prior.own
            log_ratio = (own_weights @ quartiles + prior * log_ratio) / (own_weights.sum() + prior)
        return Estimate(float(log_ratio), int(runs @ (same_product | (weights > 0))))

    def summarize(self) -> Estimate:
        """The median of all classes, each weighted by its runs, and the number of runs."""
        kept = len(self._ratios)
        runs = self._runs[:kept]
        return Estimate(find_weighted_median(self._quartiles[:kept], runs), int(runs.sum()))

    def _make_place(self, run_class: RunClass) -> int:
        """A free place, or that of the class that ran longest ago."""
        if len(self._places) < KEPT_CLASSES:
            place = len(self._ratios)
            self._ratios.append(deque(maxlen=KEPT_RUNS))
        else:
            place = self._places.pop(next(iter(self._places)))
            self._ratios[place] = deque(maxlen=KEPT_RUNS)
        self._seconds[place] = math.log(run_class.seconds)
        self._beside[place] = hash(run_class.beside)
        self._bottlenecks[place] = hash(run_class.bottleneck)
        self._products[place] = hash(run_class.product)
        return place

    def _find_closeness(self, run_class: RunClass) -> NDArray[Any]:
        """1 for classes that take as long, 0 beyond the reach."""
        distances = np.abs(self._seconds[: len(self._ratios)] - math.log(run_class.seconds))
        return np.maximum(1.0 - distances / REACH, 0.0)

    def _find_equal(self, column: NDArray[Any], text: str) -> NDArray[Any]:
        equal: NDArray[Any] = column[: len(self._ratios)] == hash(text)
        return equal


def find_lower_quartile(ratios: Sequence[float]) -> float:
    """The least ratio such that a quarter of all, or more, are no larger."""
    return sorted(ratios)[(len(ratios) - 1) // 4]


def find_weighted_median(values: NDArray[Any], weights: NDArray[Any]) -> float:
    """The least value at which half of all weight is reached; 0 without values."""
    if not len(values):
        return 0.0
    order = np.argsort(values, kind="stable")
    sums = np.cumsum(weights[order])
    return float(values[order[np.searchsorted(sums, sums[-1] / 2)]])
