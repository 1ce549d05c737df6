"""On which engines a product is computed: on one, or its rows on several. Pure.

Each engine is a curve, rows → seconds, as each device is. A node's curve includes the network: B is
sent first, then rows of A while others are computed and rows of C come back. Nodes that work at one
product share the network of the host that has the operands.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from wavetrim.scheduler.planning.split import split_rows

SPREAD_GAIN: Final = 0.2
"""Share of its time that a product must save to be spread over several engines, which all are then
kept from other products; chosen."""

_SAMPLES: Final = (1 / 16, 1 / 4, 1.0)
"""Shares of a product's rows for which an engine plans; its curve is a line between two. Chosen."""


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
class Network:
    """The network to a node and back.

    Attributes:
        call_seconds: Time of an empty call.
        in_bytes_per_second: Rate to the node.
        out_bytes_per_second: Rate from the node.
    """

    call_seconds: float
    in_bytes_per_second: float
    out_bytes_per_second: float


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes that a product sends to a node and gets back.

    Attributes:
        b_bytes: Bytes sent before any row.
        in_row_bytes: Bytes sent for each row.
        out_row_bytes: Bytes that come back for each row.
    """

    b_bytes: int
    in_row_bytes: int
    out_row_bytes: int


@dataclass(frozen=True, slots=True)
class Offer:
    """The time that an engine would take for a product.

    Attributes:
        engine: Its id.
        computing: Rows → seconds, without the network.
        network: The network to it; None for this machine.
        traffic: Bytes that cross the network.
        factor: Measured over expected seconds of the engine's newest runs.
        busy_seconds: Seconds until it has done its other work.
    """

    engine: str
    computing: SampledCurve
    network: Network | None = None
    traffic: Traffic = Traffic(0, 0, 0)
    factor: float = 1.0
    busy_seconds: float = 0.0

    def find_curve(self, sharing: int = 1) -> SampledCurve:
        """Rows → seconds with the network, which `sharing` nodes use at once."""
        network, traffic = self.network, self.traffic
        if network is None:
            return self.computing
        in_rate = network.in_bytes_per_second / sharing
        out_rate = network.out_bytes_per_second / sharing
        start_seconds = network.call_seconds + traffic.b_bytes / in_rate
        points = []
        for rows, seconds in self.computing.points:
            copies = rows * traffic.in_row_bytes / in_rate, rows * traffic.out_row_bytes / out_rate
            points.append((rows, self.factor * (start_seconds + max(seconds, *copies))))
        return SampledCurve(tuple(points))

    def find_end(self, rows: int) -> float:
        """Seconds from now until it alone has done `rows` rows."""
        return self.busy_seconds + self.find_curve().seconds(rows)


@dataclass(frozen=True, slots=True)
class Share:
    """Rows of a product for one engine.

    Attributes:
        engine: Its id.
        rows: The rows.
        seconds: Predicted seconds.
    """

    engine: str
    rows: range
    seconds: float


def sample_curve(m: int, find_seconds: Callable[[int], float]) -> SampledCurve:
    """The curve of an engine for a product of `m` rows.

    Args:
        m: Rows of the product.
        find_seconds: Predicts the seconds of a number of rows.
    """
    points: list[tuple[int, float]] = []
    for share in _SAMPLES:
        rows = max(1, round(share * m))
        if not points or rows > points[-1][0]:
            least = points[-1][1] if points else 0.0
            points.append((rows, max(least, find_seconds(rows))))
    return SampledCurve(tuple(points))


def choose_shares(rows: range, offers: Sequence[Offer], *, may_spread: bool) -> tuple[Share, ...]:
    """Which engine should compute which rows: the one that ends first, or several idle ones.

    Two, four and so on are tried, the soonest first: more nodes have more processors, but each gets
    less of the network.

    Args:
        rows: The rows, at least one.
        offers: The engines, at least one; this machine's comes first and wins ties.
        may_spread: Whether several engines may be used.
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
    nodes = sum(offer.network is not None for offer in offers)
    curves = [offer.find_curve(max(1, nodes)) for offer in offers]
    shares, start = [], rows.start
    for offer, curve, count in zip(offers, curves, split_rows(len(rows), curves), strict=True):
        if count:
            part = range(start, start + count)
            shares.append(Share(offer.engine, part, curve.seconds(count)))
            start += count
    return tuple(shares)
