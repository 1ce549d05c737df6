"""Several GPUs that share a product: one more time of rows.

Three ways to share it are compared: rows, and each GPU fetches all of B; rows, and the GPUs
exchange parts of B, so that it crosses the links once; and columns, where A is much smaller than B.
All links end at one host memory, so each has its part of what they reach together.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from wavetrim.kernels.schedule.cuts import Rates
from wavetrim.kernels.schedule.panels import divide_up
from wavetrim.kernels.spec import KernelSpec
from wavetrim.scheduler.planning.gpu_rows import (
    GpuRows,
    GpuSide,
    build_member,
)
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


def choose_team(
    problem: GemmProblem,
    machine: MachineProfile,
    positions: Sequence[int],
    spec: KernelSpec,
    sms: int | None,
) -> GpuSide:
    """The fastest way for some GPUs, which all run the kernel, to share all rows."""
    best, limit = None, 0.0
    for side in _list_ways(problem, machine, positions, spec, sms):
        if best is not None and side.find_bound(problem.m) >= limit:
            continue
        seconds = max(part.seconds for part in side.price(problem.m))
        # GPUs that exchange B are enqueued at once, which those of a long product are not.
        if best is None or (seconds < limit and not (side.exchanges and seconds >= LONG_SECONDS)):
            best, limit = side, (1 - LEAST_GAIN) * seconds
    assert best is not None, "GPUs can always divide rows"
    return best


def _list_ways(
    problem: GemmProblem,
    machine: MachineProfile,
    positions: Sequence[int],
    spec: KernelSpec,
    sms: int | None,
) -> Iterator[GpuSide]:
    gpus = [machine.gpus[position] for position in positions]
    count = len(gpus)
    rows = _build_members(problem, machine, gpus, spec, sms)
    side = GpuSide(tuple(positions), rows, spec)
    yield side
    alike = all(one.gpu == gpus[0].gpu for one in gpus)
    is_copied = problem.memory == "pinned" and not problem.b_resident
    # A GPU without rows of C has no part in the product, so it fetches nothing for the others.
    if alike and is_copied and machine.joint is not None and all(side.divide(problem.m)):
        peer_bytes = machine.joint.peer_gbytes_per_second * 1e9
        if peer_bytes:
            yield replace(side, members=_exchange(rows, peer_bytes), exchanges=True)
    # Whole tiles, which take no more time.
    columns = min(problem.n, divide_up(divide_up(problem.n, count), spec.tile.n) * spec.tile.n)
    # Where A is as large as B, dividing columns copies no less; and a resident B is whole.
    is_wide = problem.m < problem.n and not problem.b_resident
    if alike and is_wide and columns * (count - 1) < problem.n:
        members = _build_members(replace(problem, n=columns), machine, gpus, spec, sms)
        starts = range(0, problem.n, columns)
        ranges = tuple(range(start, min(start + columns, problem.n)) for start in starts)
        yield replace(side, members=members, columns=ranges)


def _exchange(members: Sequence[GpuRows], peer_bytes_per_second: float) -> tuple[GpuRows, ...]:
    """The same GPUs while they exchange parts of B."""
    return tuple(
        one._replace(
            rates=replace(
                one.rates,
                peers=len(members) - 1,
                peer_bytes_per_second=peer_bytes_per_second,
                step_seconds=EXCHANGE_TIMES * one.rates.step_seconds,
            )
        )
        for one in members
    )


def _build_members(
    problem: GemmProblem,
    machine: MachineProfile,
    gpus: Sequence[MachineProfile],
    spec: KernelSpec,
    sms: int | None,
) -> tuple[GpuRows, ...]:
    """Each GPU, at its part of the rates that all links reach together."""
    in_share, out_share, both_share = _find_shares(problem, machine, gpus)

    def share(rates: Rates) -> Rates:
        into, out = in_share * rates.in_bytes_per_second, out_share * rates.out_bytes_per_second
        both_rate = (rates.in_bytes_per_second + rates.out_bytes_per_second) / rates.duplex
        return replace(
            rates,
            in_bytes_per_second=into,
            out_bytes_per_second=out,
            duplex=max(1.0, (into + out) / (both_share * both_rate)),
            step_seconds=len(gpus) * rates.step_seconds,
            call_seconds=rates.call_seconds + (len(gpus) - 1) * FURTHER_SECONDS,
        )

    members = (build_member(problem, gpu, spec, sms) for gpu in gpus)
    return tuple(one._replace(rates=share(one.rates)) for one in members)


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
