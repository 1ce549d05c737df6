"""On which engines a product is computed: on one, or its rows on several. Pure.

Each engine is a curve, rows → seconds, as each device is. For a node the curve has the way there:
B goes first, then rows of A go in while others are computed and rows of C come back. Where several
nodes share the way out of one host, each has its part of it.
"""

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

    def add_to(
        self, seconds: float, rows: int, *, b_bytes: int, in_row_bytes: int, out_row_bytes: int
    ) -> float:
        """Seconds for rows that take a node `seconds` to compute.

        Args:
            seconds: What the node computes for.
            rows: The rows.
            b_bytes: What is sent before any row.
            in_row_bytes: What is sent for each row.
            out_row_bytes: What comes back for each row.
        """
        in_seconds = rows * in_row_bytes / self.in_bytes_per_second
        out_seconds = rows * out_row_bytes / self.out_bytes_per_second
        first = b_bytes / self.in_bytes_per_second
        return self.call_seconds + first + max(seconds, in_seconds, out_seconds)


@dataclass(frozen=True, slots=True)
class Offer:
    """What an engine would take for a product.

    Attributes:
        engine: Its id.
        curve: Rows → seconds, without what it does before.
        busy_seconds: For how long it has other work.
    """

    engine: str
    curve: SampledCurve
    busy_seconds: float = 0.0

    def find_end(self, rows: int) -> float:
        """Seconds from now until it has done so many rows."""
        return self.busy_seconds + self.curve.seconds(rows)


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
    """Who should compute which rows: the engine that ends first, or those that are idle together.

    Args:
        rows: The rows, at least one.
        offers: The engines, at least one; this machine's goes first and wins ties.
        may_spread: Whether several engines may be kept from other work.
    """
    m = len(rows)
    best = min(offers, key=lambda offer: offer.find_end(m))
    whole = (Share(best.engine, rows, best.curve.seconds(m)),)
    idle = [offer for offer in offers if offer.busy_seconds <= 0]
    if not may_spread or len(idle) < 2:
        return whole
    counts = split_rows(m, [offer.curve for offer in idle])
    shares, start = [], rows.start
    for offer, count in zip(idle, counts, strict=True):
        if count:
            part = range(start, start + count)
            shares.append(Share(offer.engine, part, offer.curve.seconds(count)))
            start += count
    end = max(share.seconds for share in shares)
    gains = end <= (1 - SPREAD_GAIN) * best.find_end(m)
    return tuple(shares) if len(shares) > 1 and gains else whole
