"""What if: a machine's profile with some of its numbers replaced.

A plan can be made for a machine that is not there: a GPU of a data sheet beside this machine's CPU,
a CPU of more threads, a faster link. Each number that is replaced says so in its source.
"""

from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, Final

from wavetrim.scheduler.errors import PlanError
from wavetrim.scheduler.model.corrections import NO_CORRECTIONS
from wavetrim.scheduler.model.cpu import CpuModel, CpuRate
from wavetrim.scheduler.profile.estimate import share_cpu
from wavetrim.scheduler.profile.machine import MachineProfile

MOST_THREADS: Final = 4096
MOST_GFLOPS: Final = 1e9
MOST_GBYTES_PER_SECOND: Final = 1e6
LEAST_RATE: Final = 1e-3
"""Largest accepted numbers, and the smallest of both rates; beyond any machine. Chosen."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Numbers that take the place of a machine's own; None leaves one as it is.

    Attributes:
        cpu_threads: Threads of the CPU. What it computes and writes in a second grows with them.
        cpu_gflops: Rate of the CPU alone, in the element type of the product.
        link_gbytes_per_second: Rate of the link in each direction, for each kind of host memory.

    Raises:
        PlanError: A number is out of its limits.
    """

    cpu_threads: int | None = None
    cpu_gflops: float | None = None
    link_gbytes_per_second: float | None = None

    def __post_init__(self) -> None:
        threads = self.cpu_threads
        if threads is not None and not _is_within(threads, Integral, 1, MOST_THREADS):
            raise PlanError("cpu_threads", threads, f"a whole number from 1 to {MOST_THREADS}")
        for name, most in (
            ("cpu_gflops", MOST_GFLOPS),
            ("link_gbytes_per_second", MOST_GBYTES_PER_SECOND),
        ):
            rate = getattr(self, name)
            if rate is not None and not _is_within(rate, Real, LEAST_RATE, most):
                raise PlanError(name, rate, f"a number from {LEAST_RATE:g} to {most:g}")


def _is_within(number: Any, kind: type, least: float, most: float) -> bool:
    is_number = isinstance(number, kind) and not isinstance(number, bool)
    return is_number and bool(least <= number <= most)


NOTHING_ELSE: Final = WhatIf()
"""The machine as it is."""


def suppose(profile: MachineProfile, what_if: WhatIf, dtype: str) -> MachineProfile:
    """The profile with these numbers in place of its own.

    They are those of each of its GPUs. It has no corrections from earlier runs, which are those of
    the machine as it is, nor joint rates of other links.

    Args:
        profile: The machine.
        what_if: The numbers.
        dtype: Element type that `cpu_gflops` is for.

    Raises:
        PlanError: A rate of the link is given, and there is no link.
    """
    if what_if.cpu_threads == profile.cpu.threads:
        what_if = replace(what_if, cpu_threads=None)  # as it is: runs still correct it
    if what_if == NOTHING_ELSE:
        return profile
    beside = tuple(suppose(other, what_if, dtype) for other in profile.beside)
    supposed = replace(profile, corrections=NO_CORRECTIONS, beside=beside)
    if (rate := what_if.link_gbytes_per_second) is not None:
        supposed = replace(_set_link(supposed, rate), joint=())
    if (threads := what_if.cpu_threads) is not None:
        supposed = replace(supposed, cpu=_scale_cpu(supposed.cpu, threads))
    if (gflops := what_if.cpu_gflops) is not None:
        supposed = replace(supposed, cpu=_set_rate(supposed.cpu, dtype, gflops))
    if supposed.cpu.threads != profile.cpu.threads or supposed.links != profile.links:
        supposed = set_cpu(supposed, supposed.cpu)
    return supposed


def set_cpu(profile: MachineProfile, cpu: CpuModel) -> MachineProfile:
    """The profile with this CPU, shared by the rule of estimates.

    Its contention was measured with another GPU, if at all.
    """
    link = profile.find_link("pageable")
    shares = share_cpu(cpu.threads, link.in_gbytes_per_second if link else 0.0)
    return replace(profile, cpu=replace(cpu, beside_gpu=shares))


def _set_link(profile: MachineProfile, gbytes_per_second: float) -> MachineProfile:
    if not profile.links:
        limit = f"left out: {profile.device} has no link; name a GPU as the device"
        raise PlanError("link_gbytes_per_second", gbytes_per_second, limit)
    return replace(
        profile,
        links=tuple(
            replace(
                link,
                in_gbytes_per_second=gbytes_per_second,
                out_gbytes_per_second=gbytes_per_second,
                source=f"rate as asked; the rest {link.source}",
            )
            for link in profile.links
        ),
    )


def _scale_cpu(cpu: CpuModel, threads: int) -> CpuModel:
    if threads == cpu.threads:
        return cpu
    factor = threads / cpu.threads

    def scale(rate: CpuRate) -> CpuRate:
        return replace(
            rate,
            gflops=rate.gflops * factor,
            element_seconds=rate.element_seconds / factor,
            write_seconds=rate.write_seconds / factor,
            cached_element_seconds=rate.cached_element_seconds / factor,
            narrow_seconds=rate.narrow_seconds / factor,
            source=f"{rate.source}; scaled from {cpu.threads} to {threads} threads",
        )

    return replace(cpu, threads=threads, rates=tuple(map(scale, cpu.rates)))


def _set_rate(cpu: CpuModel, dtype: str, gflops: float) -> CpuModel:
    """The CPU with another rate for an element type, narrow products included."""

    def change(rate: CpuRate) -> CpuRate:
        if rate.dtype != dtype:
            return rate
        factor = gflops / rate.gflops
        return replace(
            rate,
            gflops=gflops,
            alone_gflops=rate.alone_gflops * factor,
            narrow_seconds=rate.narrow_seconds / factor,
            source=f"rate as asked; the rest {rate.source}",
        )

    return replace(cpu, rates=tuple(map(change, cpu.rates)))
