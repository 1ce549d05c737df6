"""What if: a machine's profile with some of its numbers replaced.

A plan can be made for a machine that is not there: a GPU of a data sheet beside this machine's CPU,
one that a caller describes, a CPU of more threads, a faster link. Each number that is replaced says
so in its source.
"""

from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Final

from wavetrim.kernels.device import DeviceInfo
from wavetrim.scheduler.errors import PlanError
from wavetrim.scheduler.profile.corrections import NO_CORRECTIONS
from wavetrim.scheduler.profile.machine import (
    RELATIVE_GFLOPS,
    CpuModel,
    GpuModel,
    MachineProfile,
)
from wavetrim.scheduler.profile.presets import describe_gpu

MOST_THREADS: Final = 4096
MOST_GFLOPS: Final = 1e9
MOST_GBYTES_PER_SECOND: Final = 1e6
LEAST_RATE: Final = 1e-3
"""Largest accepted numbers, and the smallest accepted rate; beyond any machine. Chosen."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Numbers that take the place of a machine's own; None leaves one as it is.

    Attributes:
        cpu_threads: Threads of the CPU. What it computes, reads and writes in a second grows with
            them.
        cpu_gflops: Rate of the CPU alone, in the element type of the product.
        link_gbytes_per_second: Rate of the link in each direction, for each kind of host memory.

    Raises:
        PlanError: A number is out of its limits.
    """

    cpu_threads: int | None = None
    cpu_gflops: float | None = None
    link_gbytes_per_second: float | None = None

    def __post_init__(self) -> None:
        for name, kind, least, most in _LIMITS:
            number = getattr(self, name)
            is_number = isinstance(number, kind) and not isinstance(number, bool)
            if number is not None and not (is_number and least <= number <= most):
                words = "a whole number" if kind is Integral else "a number"
                raise PlanError(name, number, f"{words} from {least:g} to {most:g}")


_LIMITS: Final[tuple[tuple[str, type, float, float], ...]] = (
    ("cpu_threads", Integral, 1, MOST_THREADS),
    ("cpu_gflops", Real, LEAST_RATE, MOST_GFLOPS),
    ("link_gbytes_per_second", Real, LEAST_RATE, MOST_GBYTES_PER_SECOND),
)

NOTHING_ELSE: Final = WhatIf()
"""The machine as it is."""


def derive_sheet(
    *,
    sm_count: int,
    clock_mhz: int,
    compute_capability: tuple[int, int],
    memory_gib: int,
    memory_clock_mhz: int | None = None,
    link_standard_gbytes_per_second: float | None = None,
) -> GpuModel:
    """The data sheet of a GPU that is neither here nor a preset, by the rule for such a one here.

    Args:
        sm_count: Streaming multiprocessors.
        clock_mhz: Clock of the multiprocessors.
        compute_capability: Major and minor number.
        memory_gib: Device memory.
        memory_clock_mhz: Clock of the memory, of a bus of 256 bits; None for that of the
            multiprocessors.
        link_standard_gbytes_per_second: Rate of the link in each direction by its standard, 1e9
            bytes a second; None for the rate that is assumed of a GPU that was not calibrated.
    """
    info = DeviceInfo(
        index=0, name="described GPU", uuid="", compute_capability=compute_capability,
        sm_count=sm_count, memory_bytes=memory_gib * 2**30, clock_mhz=clock_mhz,
        memory_clock_mhz=memory_clock_mhz or 0, driver_version="", runtime_version="",
    )  # fmt: skip
    sheet = describe_gpu(info)
    rate = link_standard_gbytes_per_second or sheet.link_gbytes_per_second
    source = "derived from the properties that were asked for"
    return replace(sheet, link_gbytes_per_second=rate, source=source)


def apply_what_if(profile: MachineProfile, what_if: WhatIf, dtype: str) -> MachineProfile:
    """The profile with these numbers in place of its own; `cpu_gflops` is for `dtype`.

    They apply to each of its GPUs. Corrections from earlier runs are left out, and so are joint
    rates if the link is replaced: both were measured on the machine as it is.

    Raises:
        PlanError: A rate of the link is given, and there is no link.
    """
    if what_if.cpu_threads == profile.cpu.threads:
        what_if = replace(what_if, cpu_threads=None)  # as it is: runs still correct it
    if what_if == NOTHING_ELSE:
        return profile
    cpu, links, joint = profile.cpu, profile.links, profile.joint
    if (rate := what_if.link_gbytes_per_second) is not None:
        if not links:
            limit = f"left out: {profile.device} has no link; name a GPU as the device"
            raise PlanError("link_gbytes_per_second", rate, limit)
        joint = None
        links = tuple(
            replace(
                link, in_gbytes_per_second=rate, out_gbytes_per_second=rate,
                source=f"rate as asked; the rest {link.source}",
            )
            for link in links
        )  # fmt: skip
    if (threads := what_if.cpu_threads) is not None:
        cpu = _scale_cpu(cpu, threads)
    if (gflops := what_if.cpu_gflops) is not None:
        cpu = _set_gflops(cpu, dtype, gflops)
    beside = tuple(apply_what_if(other, what_if, dtype) for other in profile.beside)
    return replace(
        profile, cpu=cpu, links=links, joint=joint, beside=beside, corrections=NO_CORRECTIONS
    )


def _scale_cpu(cpu: CpuModel, threads: int) -> CpuModel:
    """The CPU with other threads: all that they do together grows with them."""
    factor = threads / cpu.threads
    return replace(
        cpu,
        threads=threads,
        float32_gflops=cpu.float32_gflops * factor,
        float64_gflops=cpu.float64_gflops * factor,
        read_gbytes_per_second=cpu.read_gbytes_per_second * factor,
        write_gbytes_per_second=cpu.write_gbytes_per_second * factor,
        source=f"{cpu.source}, scaled to {threads}",
    )


def _set_gflops(cpu: CpuModel, dtype: str, gflops: float) -> CpuModel:
    """The CPU with another rate for an element type, and for those whose rate follows from it."""
    base, share = RELATIVE_GFLOPS[dtype]
    source = f"rate of {base} as asked; the rest {cpu.source}"
    if base == "float64":
        return replace(cpu, float64_gflops=gflops / share, source=source)
    thread_gflops = cpu.thread_gflops * gflops / share / cpu.float32_gflops
    return replace(cpu, float32_gflops=gflops / share, thread_gflops=thread_gflops, source=source)
