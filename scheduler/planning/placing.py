"""On which engines a product is computed: on one, or its rows on several. Pure.

Each engine is a curve, rows → seconds, as each device is. For a node the curve has the way there:
B goes first, then rows of A go in while others are computed and rows of C come back. Nodes that
work at one product share the way out of the host that has the operands, so each has a part of it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from wavetrim.scheduler.planning.split import split_rows

SPREAD_GAIN: Final = 0.2
"""Least share of its time that a product must save to be spread over several engines, since all of
them are then kept from other products; chosen."""

_SAMPLES: Final = (1 / 16, 1 / 4, 1.0)
"""Shares of a product's rows at which an engine's plan is asked for; a line between two."""


@dataclass(frozen=True, slots=True)
class SampledCurve:
    """A cost curve through points: 0 without rows, a line between two points.

    Attributes:
        points: Rows and seconds, both rising, from one row on.
    """

    points: tuple[tuple[int, float], ...]

    def seconds(self, rows: int) -> float:
        """Seconds for `rows` rows."""
        if rows <= 0:
            return 0.0
        before = self.points[0]
        if rows <= before[0]:
            return before[1]
        for point in self.points[1:]:
            if rows <= point[0]:
                share = (rows - before[0]) / (point[0] - before[0])
                return before[1] + share * (point[1] - before[1])
            before = point
        return before[1] * rows / before[0]

    def estimate_rows(self, seconds: float) -> float:
        """About how many rows take `seconds`."""
        rows, most_seconds = self.points[-1]
        return rows * seconds / max(most_seconds, 1e-9)


@dataclass(frozen=True, slots=True)
class Way:
    """The way to a node and back.

    Attributes:
        call_seconds: What a product costs on top of its bytes.
        in_bytes_per_second: To the node.
        out_bytes_per_second: From the node.
    """

    call_seconds: float
    in_bytes_per_second: float
    out_bytes_per_second: float


@dataclass(frozen=True, slots=True)
class Traffic:
    """What a product sends to a node, and gets back.

    Attributes:
        b_bytes: Sent before any row.
        in_row_bytes: Sent for each row.
        out_row_bytes: Comes back for each row.
    """

    b_bytes: int
    in_row_bytes: int
    out_row_bytes: int


@dataclass(frozen=True, slots=True)
class Offer:
    """What an engine would take for a product.

    Attributes:
        engine: Its id.
        computing: Rows → seconds, without the way there.
        way: The way there; None for this machine.
        traffic: What goes that way.
        factor: Measured over expected seconds of the engine's newest runs.
        busy_seconds: For how long it has other work.
    """

    engine: str
    computing: SampledCurve
    way: Way | None = None
    traffic: Traffic = Traffic(0, 0, 0)
    factor: float = 1.0
    busy_seconds: float = 0.0

    def find_curve(self, sharing: int = 1) -> SampledCurve:
        """Rows → seconds with the way there, which so many nodes use at once."""
        way, traffic = self.way, self.traffic
        if way is None:
            return self.computing
        in_rate = way.in_bytes_per_second / sharing
        out_rate = way.out_bytes_per_second / sharing
        start_seconds = way.call_seconds + traffic.b_bytes / in_rate
        points = []
        for rows, seconds in self.computing.points:
            copies = rows * traffic.in_row_bytes / in_rate, rows * traffic.out_row_bytes / out_rate
            points.append((rows, self.factor * (start_seconds + max(seconds, *copies))))
        return SampledCurve(tuple(points))

    def find_end(self, rows: int) -> float:
        """Seconds from now until it has done so many rows, as the only one."""
        return self.busy_seconds + self.find_curve().seconds(rows)


@dataclass(frozen=True, slots=True)
class Share:
    """Rows of a product for one engine.

    Attributes:
        engine: Its id.
        rows: The rows.
        seconds: What they should take.
    """

    engine: str
    rows: range
    seconds: float


def sample_curve(m: int, find_seconds: Callable[[int], float]) -> SampledCurve:
    """The curve of an engine for a product of `m` rows.

    Args:
        m: Rows of the product.
        find_seconds: Asked for some numbers of rows.
    """
    points: list[tuple[int, float]] = []
    for share in _SAMPLES:
        rows = max(1, round(share * m))
        if not points or rows > points[-1][0]:
            least = points[-1][1] if points else 0.0
            points.append((rows, max(least, find_seconds(rows))))
    return SampledCurve(tuple(points))


def choose_shares(rows: range, offers: Sequence[Offer], *, may_spread: bool) -> tuple[Share, ...]:
    """Who should compute which rows: the engine that ends first, or several that are idle.

    Of those the soonest two, four and so on are considered: more nodes have more processors, but
    each gets less of the network.

    Args:
        rows: The rows, at least one.
        offers: The engines, at least one; this machine's goes first and wins ties.
        may_spread: Whether several engines may be kept from other work.
    """
    m = len(rows)
    best = min(offers, key=lambda offer: offer.find_end(m))
    chosen: tuple[Share, ...] = (Share(best.engine, rows, best.find_curve().seconds(m)),)
    most_seconds = (1 - SPREAD_GAIN) * best.find_end(m)
    idle = sorted(
        (offer for offer in offers if offer.busy_seconds <= 0), key=lambda one: one.find_end(m)
    )
    count = 2
    while may_spread and count < 2 * len(idle):
        shares = _divide(rows, idle[:count])
        seconds = max(share.seconds for share in shares)
        if len(shares) > 1 and seconds <= most_seconds:
            chosen, most_seconds = shares, math.nextafter(seconds, 0.0)
        count *= 2
    return chosen


def _divide(rows: range, offers: Sequence[Offer]) -> tuple[Share, ...]:
    """Rows for each engine, so that the last one ends as early as possible."""
    nodes = sum(offer.way is not None for offer in offers)
    curves = [offer.find_curve(max(1, nodes)) for offer in offers]
    shares, start = [], rows.start
    for offer, curve, count in zip(offers, curves, split_rows(len(rows), curves), strict=True):
        if count:
            part = range(start, start + count)
            shares.append(Share(offer.engine, part, curve.seconds(count)))
            start += count
    return tuple(shares)
