"""Several GPUs that share a product, a team: its curve, and the part of each GPU.

A team takes as long as its slowest member. Its GPUs divide the rows of C, so that they end at about
the same time, or the columns: then each needs all of A, but only its columns of B.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeAlias

from wavetrim.kernels.schedule.steps import Cut
from wavetrim.scheduler.model.cost import CostCurve
from wavetrim.scheduler.model.gpu_curve import GpuCurve
from wavetrim.scheduler.model.waves import divide_up
from wavetrim.scheduler.planning.split import split_rows

LONG_SECONDS: Final = 0.05
"""Least predicted time for which each GPU has a thread, which reports its rows and can stop it
while others compute; chosen. All GPUs of a briefer product are enqueued at once."""


@dataclass(frozen=True, slots=True)
class TeamCurve:
    """Rows of C → seconds on several GPUs.

    Attributes:
        members: A curve for each GPU: if all are alike, for an even part of the rows or columns.
        m: Rows of C.
        even: Whether all GPUs are alike, so that they take equal parts.
        exchanges: Whether they exchange parts of B, so that it crosses the links once.
        columns: Columns of C of each GPU, which computes all rows of these; empty if they divide
            the rows.
    """

    members: tuple[GpuCurve, ...]
    m: int
    even: bool
    exchanges: bool = False
    columns: tuple[range, ...] = ()
    # Each is a search where the GPUs differ.
    _divided: dict[int, tuple[int, ...]] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    @property
    def copying_share(self) -> float:
        """Share of the time in which copies are under way, 0…1: that of the busiest member."""
        return max(member.copying_share for member in self.members)

    def divide(self, rows: int) -> tuple[int, ...]:
        """Rows of each member: consecutive ones, or all of them where columns are divided."""
        if self.columns:
            return (rows,) * len(self.members)
        if not self.even:
            if rows not in self._divided:
                self._divided[rows] = split_rows(rows, self.members)
            return self._divided[rows]
        part = find_even_part(rows, len(self.members), self.members[0].problem.tile_m)
        before = (number * part for number in range(len(self.members)))
        return tuple(max(0, min(part, rows - taken)) for taken in before)

    def seconds(self, rows: int) -> float:
        """Seconds for `rows` rows: 0 without rows, and never less for more rows."""
        if self.even:
            part = self.divide(rows)[0]
            different = {id(member): member for member in self.members}
            return max(member.seconds(part) for member in different.values())
        shares = zip(self.members, self.divide(rows), strict=True)
        return max(member.seconds(share) for member, share in shares)

    def estimate_rows(self, seconds: float) -> float:
        """Rough number of rows that take `seconds`."""
        each = [member.estimate_rows(seconds) for member in self.members]
        return min(each) if self.columns else sum(each)

    def kernel_seconds(self, rows: int) -> float:
        """Seconds of the kernels alone, in one launch on each GPU.

        If the GPUs differ, about that: as if rows were divided by the rates of their kernels.
        """
        return self._join_kernels(rows, GpuCurve.kernel_seconds)

    def find_least_kernel_seconds(self, rows: int) -> float:
        """Lower bound of that in all schedules, of one launch or of several on each GPU."""
        return self._join_kernels(rows, GpuCurve.find_least_kernel_seconds)

    def _join_kernels(self, rows: int, ask: Callable[[GpuCurve, int], float]) -> float:
        if not self.even and rows:
            seconds = [ask(member, rows) for member in self.members]
            return 1 / sum(1 / one for one in seconds) if all(seconds) else 0.0
        shares = zip(self.members, self.divide(rows), strict=True)
        return max(ask(member, share) for member, share in shares)

    def find_least_seconds(self, rows: int) -> float:
        """Lower bound for all schedules."""
        shares = zip(self.members, self.divide(rows), strict=True)
        least = [member.find_least_seconds(share) for member, share in shares]
        # Members that differ may have other rows in the best schedules.
        return max(least) if self.even else min(least)


def find_even_part(size: int, count: int, tile: int) -> int:
    """Rows or columns of the first of `count` equal parts: whole tiles, which take no more time."""
    return min(size, divide_up(divide_up(size, count), tile) * tile)


GpuSide: TypeAlias = GpuCurve | TeamCurve
"""The GPUs of a plan: one, or a team."""


def list_dividing(side: GpuSide) -> tuple[CostCurve, ...]:
    """The curves among which rows are divided: GPUs that are alike divide theirs evenly."""
    return (side,) if isinstance(side, GpuCurve) or side.even else side.members


def list_members(side: GpuSide) -> tuple[GpuCurve, ...]:
    """The curve of each GPU."""
    return side.members if isinstance(side, TeamCurve) else (side,)


@dataclass(frozen=True)
class GpuPart:
    """The part of C of one GPU in a plan.

    Attributes:
        position: Its position among the GPUs of the plan's profile.
        rows: Its rows of C.
        columns: Its columns of C.
        curve: Rows → seconds on it in this plan.
    """

    position: int
    rows: range
    columns: range
    curve: GpuCurve

    @property
    def seconds(self) -> float:
        """Predicted seconds."""
        return self.curve.seconds(len(self.rows))

    @property
    def waves(self) -> int:
        """Waves of its kernels."""
        return self.curve.grid.count_waves(len(self.rows))

    @property
    def tail_utilization(self) -> float:
        """Filled share of the last wave."""
        return self.curve.grid.tail_utilization(len(self.rows))

    @property
    def tail_split(self) -> bool:
        """Whether the last wave is split along K, so that it costs about its filled share."""
        steps = self.curve.split_steps
        if steps is None:
            return False
        return self.curve.grid.count_split_waves(len(self.rows), steps) < self.waves

    @cached_property
    def cut(self) -> Cut:
        """The cut of its rows into steps."""
        return self.curve.find_cut(len(self.rows))


def list_parts(
    side: GpuSide, positions: Sequence[int], shares: Sequence[int]
) -> tuple[GpuPart, ...]:
    """The parts of the GPUs that have rows, from the first row on.

    Args:
        side: The curve of one GPU or of a team.
        positions: Positions of the GPUs among those of the profile.
        shares: Rows of each.
    """
    members = list_members(side)
    if isinstance(side, TeamCurve) and side.columns:
        each = zip(positions, shares, side.columns, members, strict=True)
        return tuple(GpuPart(at, range(rows), columns, one) for at, rows, columns, one in each)
    parts: list[GpuPart] = []
    start = 0
    for position, share, curve in zip(positions, shares, members, strict=True):
        if share:
            rows, columns = range(start, start + share), range(curve.problem.n)
            parts.append(GpuPart(position, rows, columns, curve))
            start += share
    return tuple(parts)


def find_next_count(
    seconds: Mapping[int, float], count: int, most: int, *, beside_cpu: bool = False
) -> int | None:
    """How many GPUs to try next: twice as many while that gains, then numbers between those tried.

    Each try is a search for F, so few of them should do.

    Args:
        seconds: The time with each number tried so far.
        count: The best of them.
        most: GPUs that may be used.
        beside_cpu: Whether the CPU has rows with that number. Two GPUs beside which it has none may
            gain nothing, and four much. So twice as many are tried once more.

    Returns:
        A number that has not been tried; None if no other can be better.
    """
    last, more = max(seconds), [one for one in seconds if one > count]
    if last < most and len(more) <= beside_cpu:
        return min(2 * last, most)
    tried = (count + min(more, default=count)) // 2
    if tried > count:
        return tried
    fewer = max((one for one in seconds if one < count), default=count)
    tried = (fewer + count) // 2
    # Speed grows at most as the number of GPUs does. Numbers nearer than a quarter (chosen) differ
    # by a few per cent.
    can_gain = 4 * (count - fewer) > count and seconds[fewer] * fewer < seconds[count] * tried
    return tried if can_gain and tried > fewer else None
