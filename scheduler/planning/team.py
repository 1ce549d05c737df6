"""The GPUs of a plan: one, or several that share its rows. They take as long as the slowest.

Three ways to share are compared: rows, and each GPU fetches all of B; rows, and the GPUs exchange
parts of B, so that it crosses the links once; and columns, where A is much smaller than B. All
links end at one host memory, so each has its part of what they reach together.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from wavetrim.kernels.schedule.cuts import Rates, find_bound
from wavetrim.kernels.schedule.panels import divide_up
from wavetrim.kernels.spec import KernelSpec
from wavetrim.scheduler.planning.cpu_rows import Contention
from wavetrim.scheduler.planning.gpu_rows import GpuPart, GpuRows, build_rows
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
        members: Each of them.
        spec: The kernel.
        divides_columns: Whether each GPU computes all rows of its columns; else they divide rows.
        exchanges: Whether they exchange parts of B, so that it crosses the links once.
    """

    members: tuple[GpuRows, ...]
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

    def price(self, rows: int) -> tuple[GpuPart, ...]:
        """The parts of the GPUs that get rows, the fastest list of each, from the first row on."""
        parts: list[GpuPart] = []
        start = 0
        for member, share in zip(self.members, self.divide(rows), strict=True):
            if share:
                cut = parts[0].cut if self.exchanges and parts else None  # they cut B alike
                parts.append(member.price(range(start, start + share), cut))
                start += 0 if self.divides_columns else share
        return tuple(parts)

    def slow_copies(self, contention: Contention) -> "GpuSide":
        """The GPUs while the CPU computes other rows."""
        factor, start_seconds = contention.copies, contention.start_seconds
        members = (
            replace(one, rates=one.rates.slow_copies(factor, start_seconds)) for one in self.members
        )
        return replace(self, members=tuple(members))


def choose_side(
    problem: GemmProblem,
    machine: MachineProfile,
    positions: Sequence[int],
    spec: KernelSpec,
    sms: int | None,
) -> GpuSide:
    """The fastest way for some GPUs, which all run the kernel, to share all rows."""
    best, *others = _list_ways(problem, machine, positions, spec, sms)
    limit = (1 - LEAST_GAIN) * _find_seconds(best) if others else 0.0
    for way in others:
        if way.find_bound(problem.m) >= limit:
            continue
        seconds = _find_seconds(way)
        # GPUs that exchange B are enqueued at once, which those of a long product are not.
        if seconds < limit and not (way.exchanges and seconds >= LONG_SECONDS):
            best, limit = way, (1 - LEAST_GAIN) * seconds
    return best


def _find_seconds(side: GpuSide) -> float:
    return max(part.seconds for part in side.price(side.members[0].problem.m))


def _list_ways(
    problem: GemmProblem,
    machine: MachineProfile,
    positions: Sequence[int],
    spec: KernelSpec,
    sms: int | None,
) -> Iterator[GpuSide]:
    gpus = [machine.gpus[position] for position in positions]
    count = len(gpus)
    side = GpuSide(_build_members(problem, machine, positions, spec, sms), spec)
    yield side
    if count == 1 or any(one.gpu != gpus[0].gpu for one in gpus) or problem.b_resident:
        return
    # A GPU without rows of C has no part in the product, so it fetches nothing for the others.
    if problem.memory == "pinned" and machine.joint is not None and all(side.divide(problem.m)):
        peer_bytes = machine.joint.peer_gbytes_per_second * 1e9
        if peer_bytes:
            members = tuple(_exchange(one, count - 1, peer_bytes) for one in side.members)
            yield replace(side, members=members, exchanges=True)
    # Whole tiles, which take no more time.
    columns = min(problem.n, divide_up(divide_up(problem.n, count), spec.tile.n) * spec.tile.n)
    # Where A is as large as B, dividing columns copies no less.
    if problem.m < problem.n and columns * (count - 1) < problem.n:
        members = _build_members(replace(problem, n=columns), machine, positions, spec, sms)
        starts = range(0, problem.n, columns)
        members = tuple(
            replace(one, columns=range(start, min(start + columns, problem.n)))
            for one, start in zip(members, starts, strict=True)
        )
        yield replace(side, members=members, divides_columns=True)


def _exchange(member: GpuRows, peers: int, peer_bytes_per_second: float) -> GpuRows:
    """A GPU while it exchanges parts of B with others."""
    rates = replace(
        member.rates,
        peers=peers,
        peer_bytes_per_second=peer_bytes_per_second,
        step_seconds=EXCHANGE_TIMES * member.rates.step_seconds,
    )
    return replace(member, rates=rates)


def _build_members(
    problem: GemmProblem,
    machine: MachineProfile,
    positions: Sequence[int],
    spec: KernelSpec,
    sms: int | None,
) -> tuple[GpuRows, ...]:
    """Each GPU, at its part of the rates that all links reach together."""
    count = len(positions)
    members = tuple(
        build_rows(problem, machine, position, spec, sms=sms, is_alone=count == 1)
        for position in positions
    )
    if count == 1:
        return members
    gpus = [machine.gpus[position] for position in positions]
    in_share, out_share, both_share = _find_shares(problem, machine, gpus)

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
