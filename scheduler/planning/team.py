"""The GPUs of a plan: one, or several that share its rows. They take as long as the slowest.

Three ways to share are compared: rows, and each GPU fetches all of B; rows, and the GPUs exchange
parts of B, so that it crosses the links once; and columns, where A is much smaller than B. All
links end at one host memory, so each has its part of what they reach together.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from wavetrim.kernels.schedule.cuts import Rates, find_bound
from wavetrim.kernels.schedule.panels import divide_up
from wavetrim.kernels.spec import KernelSpec
from wavetrim.scheduler.planning.cpu_rows import Contention
from wavetrim.scheduler.planning.gpu_rows import GpuPart, take_all_rows
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.estimate import estimate_joint
from wavetrim.scheduler.profile.machine import MachineProfile

FURTHER_SECONDS: Final = 1.3e-5
"""Time of a call for each further GPU: the host enqueues for all, and they wait for each other. The
median of 5 to 28 µs with two to four H200s of two hosts (64 cores; f0d76cff)."""

LEAST_GAIN: Final = 0.03
"""Share of the time that exchanging B or dividing columns must save. Chosen: GPUs that exchange
wait for each other, and columns are not adjacent in memory."""

EXCHANGE_TIMES: Final = 2
"""Factor on a step's time where GPUs exchange B: each enqueues twice as many commands. Chosen."""

LONG_SECONDS: Final = 0.05
"""Predicted time from which each GPU has a thread of its own, which reports rows and can be
stopped. The calling thread enqueues all GPUs of a shorter product at once. Chosen."""


@dataclass(frozen=True)
class GpuSide:
    """The GPUs of a plan, with one kernel.

    Attributes:
        members: Each of them, as if it had all rows.
        spec: The kernel.
        divides_columns: Whether each GPU computes all rows of its columns; else they divide rows.
        exchanges: Whether they exchange parts of B, so that it crosses the links once.
    """

    members: tuple[GpuPart, ...]
    spec: KernelSpec
    divides_columns: bool = False
    exchanges: bool = False

    def divide(self, rows: int) -> list[int]:
        """Rows of each GPU: whole rows of tiles, by their speeds; all where columns are divided."""
        if self.divides_columns or len(self.members) == 1:
            return [rows] * len(self.members)
        shares, left = [], rows
        for at, part in enumerate(self._speeds):
            tile_rows = round(left / self.spec.tile.m * part / sum(self._speeds[at:]) + 0.49)
            shares.append(min(left, tile_rows * self.spec.tile.m))
            left -= shares[-1]
        shares[-1] += left
        return shares

    @cached_property
    def _speeds(self) -> list[float]:
        """The relative speed of each GPU, from the lower bound of its time."""
        return [1 / find_bound(one.problem, one.problem.m, one.rates) for one in self.members]

    def find_bound(self, rows: int) -> float:
        """A lower bound of the seconds for some rows, from the longest queue."""
        shares = zip(self.members, self.divide(rows), strict=True)
        return max(find_bound(one.problem, share, one.rates) for one, share in shares if share)

    def give_rows(self, rows: int) -> tuple[GpuPart, ...]:
        """The parts of the GPUs that get some of the first `rows` rows."""
        parts: list[GpuPart] = []
        start = 0
        for member, share in zip(self.members, self.divide(rows), strict=True):
            if share:
                cut = parts[0].cut if self.exchanges and parts else None  # they cut B alike
                parts.append(member.take(range(start, start + share), cut))
                start += 0 if self.divides_columns else share
        return tuple(parts)

    def find_seconds(self, rows: int) -> float:
        """Seconds for some rows: those of the slowest GPU."""
        return max(part.seconds for part in self.give_rows(rows))

    def slow_copies(self, contention: Contention) -> "GpuSide":
        """The GPUs while the CPU computes other rows."""

        def slow(rates: Rates) -> Rates:
            return replace(
                rates,
                in_bytes_per_second=rates.in_bytes_per_second / contention.copies,
                out_bytes_per_second=rates.out_bytes_per_second / contention.copies,
                call_seconds=rates.call_seconds + contention.start_seconds,
            )

        members = tuple(replace(one, rates=slow(one.rates)) for one in self.members)
        return replace(self, members=members)


def choose_side(
    problem: GemmProblem,
    machine: MachineProfile,
    positions: Sequence[int],
    spec: KernelSpec,
    sms: int | None,
) -> GpuSide:
    """The fastest way for some GPUs, which all run the kernel, to share all rows."""

    def describe(part: GemmProblem) -> tuple[GpuPart, ...]:
        return _describe_members(part, machine, positions, spec, sms)

    best, m = GpuSide(describe(problem), spec), problem.m
    others = list(_list_other_ways(problem, machine, best, describe))
    limit = (1 - LEAST_GAIN) * best.find_seconds(m) if others else 0.0
    for way in others:
        if way.find_bound(m) < limit:
            seconds = way.find_seconds(m)
            # GPUs that exchange B are enqueued at once, which those of a long product are not.
            if seconds < limit and not (way.exchanges and seconds >= LONG_SECONDS):
                best, limit = way, (1 - LEAST_GAIN) * seconds
    return best


def _list_other_ways(
    problem: GemmProblem,
    machine: MachineProfile,
    plain: GpuSide,
    describe: Callable[[GemmProblem], tuple[GpuPart, ...]],
) -> Iterator[GpuSide]:
    """The ways in which equal GPUs may exchange B, or divide columns."""
    members, (m, n) = plain.members, (problem.m, problem.n)
    count, gpus = len(members), {machine.gpus[one.position].gpu for one in members}
    if count == 1 or len(gpus) > 1 or problem.b_resident:
        return
    # A GPU without rows of C has no part in the product, so it fetches nothing for the others.
    if problem.memory == "pinned" and machine.joint is not None and all(plain.divide(m)):
        peer_bytes = machine.joint.peer_gbytes_per_second * 1e9
        if peer_bytes:
            exchanging = (_exchange(one, count - 1, peer_bytes) for one in members)
            yield replace(plain, members=tuple(exchanging), exchanges=True)
    # Whole tiles, which take no more time.
    tile_n = plain.spec.tile.n
    columns = min(n, divide_up(divide_up(n, count), tile_n) * tile_n)
    # Where A is as large as B, dividing columns copies no less.
    if m < n and columns * (count - 1) < n:
        starts = range(0, n, columns)
        ranges = [range(start, min(start + columns, n)) for start in starts]
        dividing = (
            replace(one, columns=some, problem=replace(one.problem, n=len(some)))
            for one, some in zip(describe(replace(problem, n=columns)), ranges, strict=True)
        )
        yield replace(plain, members=tuple(dividing), divides_columns=True)


def _exchange(member: GpuPart, peers: int, peer_bytes_per_second: float) -> GpuPart:
    """A GPU while it exchanges parts of B with others."""
    rates = replace(
        member.rates,
        peers=peers,
        peer_bytes_per_second=peer_bytes_per_second,
        step_seconds=EXCHANGE_TIMES * member.rates.step_seconds,
    )
    return replace(member, rates=rates)


def _describe_members(
    problem: GemmProblem,
    machine: MachineProfile,
    positions: Sequence[int],
    spec: KernelSpec,
    sms: int | None,
) -> tuple[GpuPart, ...]:
    """All rows on each GPU, at its part of the rates that all links reach together."""
    count = len(positions)
    members = tuple(
        take_all_rows(problem, machine, position, spec, sms=sms, is_alone=count == 1)
        for position in positions
    )
    if count == 1:
        return members
    in_share, out_share, both_share = _find_shares(
        problem, machine, [machine.gpus[position] for position in positions]
    )

    def share(rates: Rates) -> Rates:
        into, out = in_share * rates.in_bytes_per_second, out_share * rates.out_bytes_per_second
        both_rate = (rates.in_bytes_per_second + rates.out_bytes_per_second) / rates.duplex
        return replace(
            rates,
            in_bytes_per_second=into,
            out_bytes_per_second=out,
            duplex=max(1.0, (into + out) / (both_share * both_rate)),
            step_seconds=count * rates.step_seconds,
            call_seconds=rates.call_seconds + (count - 1) * FURTHER_SECONDS,
        )

    return tuple(replace(one, rates=share(one.rates)) for one in members)


def _find_shares(
    problem: GemmProblem, machine: MachineProfile, gpus: Sequence[MachineProfile]
) -> tuple[float, float, float]:
    """Each link's share of its own rates while all are busy: in, out, and both ways.

    Staged copies of several GPUs share the CPU's threads: together they are as fast as those of
    one.
    """
    if problem.memory == "pageable":
        return (1 / len(gpus),) * 3
    links = [one.find_link(problem.memory) for one in gpus]
    joint = machine.joint or estimate_joint(links)
    both = sum((one.in_gbytes_per_second + one.out_gbytes_per_second) / one.duplex for one in links)
    return (
        min(1.0, joint.in_gbytes_per_second / sum(one.in_gbytes_per_second for one in links)),
        min(1.0, joint.out_gbytes_per_second / sum(one.out_gbytes_per_second for one in links)),
        min(1.0, joint.both_gbytes_per_second / both),
    )
