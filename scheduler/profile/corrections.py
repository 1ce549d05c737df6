"""Corrections of predictions by earlier runs: one factor for each device and bottleneck.

A run's measured seconds over its predicted ones are a sample, as in StarPU's performance models
(Augonnet et al., 2011). The factor is the median of the last fifteen samples. It always corrects
the seconds that users see. It changes which plan is chosen only if it differs from 1 by more than a
fifth: on a busy or throttled machine, or where a split does not pay. A factor is forgotten a minute
after its last run, so that a plan that was given up is tried again.
"""

import statistics
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

KEPT_RUNS: Final = 15
"""Newest runs of a kind, whose median is the factor; chosen."""

LEAST_RUNS: Final = 3
"""Fewest runs of a kind that give a factor: a single one may be an outlier. Chosen."""

LEAST_CHANGE: Final = 0.2
"""Relative error of predictions from which on it changes plans; chosen, as noise is seldom that
large."""

FORGOTTEN_SECONDS: Final = 60.0
"""Time since its last run after which a factor is forgotten; chosen."""


class Factor(NamedTuple):
    """What runs say of a kind of run.

    Attributes:
        reported: Factor on the seconds that users see: the median of measured over predicted.
        deciding: Factor on the seconds by which plans are chosen: 1 until `reported` differs by
            more than a fifth. It then follows `reported` in steps of a fifth.
        runs: Runs that count.
    """

    reported: float = 1.0
    deciding: float = 1.0
    runs: int = 0


UNCORRECTED: Final = Factor()


@dataclass(slots=True)
class _Runs:
    """The newest runs of a kind, when the last one was, and what they say."""

    ratios: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT_RUNS))
    seconds: float = 0.0
    factor: Factor = UNCORRECTED

    def update(self) -> None:
        """Find the factor anew, once there are enough runs."""
        if len(self.ratios) < LEAST_RUNS:
            return
        reported, deciding = statistics.median(self.ratios), self.factor.deciding
        if abs(reported - deciding) > LEAST_CHANGE * deciding:
            deciding = reported if abs(reported - 1) > LEAST_CHANGE else 1.0
        self.factor = Factor(reported, deciding, len(self.ratios))


class Corrections:
    """The factors of one machine. Thread-safe.

    A kind of run is named by device, kind of memory and bottleneck (`Plan.kinds`).

    Attributes:
        version: Grows whenever a deciding factor changes. Plans of an older version are chosen
            anew.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kinds: dict[str, _Runs] = {}
        self._adopted: dict[str, Factor] = {}
        self.version = 0

    def find(self, kind: str) -> Factor:
        """The factors of a kind of run."""
        with self._lock:
            runs = self._kinds.get(kind)
            own = UNCORRECTED if runs is None else runs.factor
            return self._adopted.get(kind, own)

    def note(self, kind: str, predicted_seconds: float, measured_seconds: float) -> None:
        """Record a run: its uncorrected prediction, and its measured time."""
        if predicted_seconds <= 0 or measured_seconds <= 0:
            return
        now = self._clock()
        with self._lock:
            self._forget(now)
            runs = self._kinds.setdefault(kind, _Runs())
            runs.seconds = now
            runs.ratios.append(measured_seconds / predicted_seconds)
            before = runs.factor.deciding
            runs.update()
            self.version += before != runs.factor.deciding

    def adopt(self, found: Mapping[str, Factor]) -> None:
        """Use the factors of the process that computes, as its `list_all` returns them."""
        with self._lock:
            before, now = (
                {kind: one.deciding for kind, one in factors.items() if one.deciding != 1.0}
                for factors in (self._adopted, found)
            )
            self.version += before != now
            self._adopted = dict(found)

    def list_all(self) -> dict[str, Factor]:
        """The factors that count, by the name of their kind of run."""
        with self._lock:
            self._forget(self._clock())
            found = {kind: runs.factor for kind, runs in sorted(self._kinds.items())}
        return {kind: factor for kind, factor in found.items() if factor.runs} | self._adopted

    def _forget(self, now: float) -> None:
        """Forget the factors without a recent run."""
        limit = now - FORGOTTEN_SECONDS
        for kind in [kind for kind, runs in self._kinds.items() if runs.seconds < limit]:
            self.version += self._kinds.pop(kind).factor.deciding != 1.0


class NoCorrections(Corrections):
    """No corrections, and none are recorded: for a machine that runs nothing here."""

    def note(self, kind: str, predicted_seconds: float, measured_seconds: float) -> None:
        """Do nothing."""


NO_CORRECTIONS: Final = NoCorrections()
