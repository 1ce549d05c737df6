"""What products and jobs that have ended teach about the next ones. It ends with the process.

1. *Seconds.* A product takes what its plan predicts, times how long products of its kind took
   lately. A kind is an element type, sizes rounded to powers of two, and the devices asked for. A
   new kind has the factor of all kinds.

       seconds = predicted · median(took / predicted)

2. *Beside the product.* A job with nothing ahead begins some time after it was accepted, and its
   result is written after its product: the medians *lead* and *trail*.

3. *How sure.* A job that has ended tells by what ratio the answer at its acceptance was off:

       r = (ended − accepted) / (told − accepted)

   The next ones lie with 90% between the 5% and 95% quantiles of the last 60 ratios. This is split
   conformal prediction (V. Vovk and others, 2005), which supposes only that the next job is like
   the last ones. An answer outside of its interval is moved to the interval's end. Before there are
   19 ratios, too few for 90%, an interval reaches from a fourth of the time to four times. When a
   job begins lies between quantiles, too, those of

       (begun − told begin) / (told end − accepted)
"""

import math
from collections import deque
from collections.abc import Collection
from statistics import median
from typing import Final, NamedTuple, TypeAlias

from wavetrim.kernels.last_used import LastUsed
from wavetrim.service.jobs.queue import LEAST_SECONDS

Kind: TypeAlias = tuple[str, int, int, int, str | None]
"""Element type, bits of M, N and K, and the devices asked for."""

LEAST_ENDS: Final = 19
"""Ratios from which both ends of a 90% interval can be told: 0.05 · (19 + 1) = 1."""

_MOST_ENDS: Final = 60
"""Ratios that are kept; chosen: answers follow a change of load within as many jobs. Simulated, 200
are no better, nor are those of a kind alone."""

_MOST_RUNS: Final = 15
"""Runs of a kind whose median counts; chosen, as for corrections of plans."""

_MOST_KINDS: Final = 256

_WIDE: Final = 4.0
"""Factor of an interval while nothing is known; chosen: predictions for a machine that is not
calibrated are 0.2 to 0.7 of the truth."""

LEAST_AHEAD: Final = 1e-4
"""Least time until what is told, so that ratios are finite; chosen."""


class Span(NamedTuple):
    """What is not sure, such as a time: what it should be, and where it lies with 90%."""

    at: float
    low: float
    high: float


class Told(NamedTuple):
    """What was predicted of a job when it was first asked about, UTC seconds.

    Attributes:
        at: When that was.
        begin: When it should begin.
        end: When it should end.
        before: How many products go before it, or run.
    """

    at: float
    begin: float
    end: float
    before: int = 0


class Medians:
    """The medians of what was measured lately, by kind; a new kind has that of all."""

    def __init__(self) -> None:
        self._values = LastUsed[Kind | None, deque[float]](_MOST_KINDS)

    def add(self, kind: Kind | None, value: float) -> None:
        """One more was measured, of a kind or of none."""
        for one in {kind, None}:
            if (values := self._values.find(one)) is None:
                self._values.keep(one, values := deque(maxlen=_MOST_RUNS))
            values.append(value)

    def find(self, kind: Kind | None, default: float) -> float:
        """The median; the default if nothing was measured."""
        values = self._values.find(kind) or self._values.find(None)
        return default if values is None else median(values)


class Past:
    """What is known, by kind and of all jobs. To be used from one event loop.

    Args:
        least_seconds: Least time that a product takes, unless it is known to take less.

    Attributes:
        leads: How long after it was accepted a job began that had nothing ahead of it.
        trails: How long after its product a job ended.
    """

    def __init__(self, least_seconds: float = LEAST_SECONDS) -> None:
        self._least_seconds = least_seconds
        self.leads, self.trails, self._factors = Medians(), Medians(), Medians()
        self._shifts = deque[float](maxlen=_MOST_ENDS)
        self._ratios = deque[float](maxlen=_MOST_ENDS)

    @property
    def is_young(self) -> bool:
        """Whether so few jobs have ended that intervals are wide."""
        return len(self._ratios) < LEAST_ENDS

    def learn_run(self, kind: Kind, predicted_seconds: float, seconds: float) -> None:
        """A product took some seconds on its devices."""
        self._factors.add(kind, seconds / max(self._least_seconds, predicted_seconds))

    def learn_end(self, told: Told, *, begun: float, ended: float) -> None:
        """A job has ended, of which something was told."""
        seconds = max(LEAST_AHEAD, told.end - told.at)
        self._shifts.append((begun - told.begin) / seconds)
        self._ratios.append((ended - told.at) / seconds)

    def find_seconds(self, kind: Kind, predicted_seconds: float) -> float:
        """How long a product should take on its devices."""
        return max(self._least_seconds, predicted_seconds) * self._factors.find(kind, 1.0)

    def calibrate(self, now: float, begin: float, end: float) -> tuple[Span, Span]:
        """What is told of a job that should begin and end at some times: when it does so."""
        seconds, ahead = max(LEAST_AHEAD, end - now), begin - now
        shifts, ratios = Span(0.0, -ahead, _WIDE * ahead - ahead), Span(1.0, 1 / _WIDE, _WIDE)
        if not self.is_young:
            ratios = _enclose(self._ratios, 1.0)
            shifts = Span(*(seconds * shift for shift in _enclose(self._shifts, 0.0)))
        ends = Span(*(now + seconds * ratio for ratio in ratios))
        # A job begins from now on, and before it ends.
        pairs = zip(shifts, ends, strict=True)
        return Span(*(min(latest, max(now, begin + shift)) for shift, latest in pairs)), ends


def _enclose(values: Collection[float], value: float) -> Span:
    """Where the next value lies with 90%, and what of that is nearest to a given one.

    Of at least `LEAST_ENDS` values.
    """
    ordered = sorted(values)
    edge = math.floor(0.05 * (len(ordered) + 1) + 1e-9) - 1
    low, high = ordered[edge], ordered[-1 - edge]
    return Span(min(max(value, low), high), low, high)
