"""Machines that the planner's tests reason about."""

from dataclasses import replace

from wavetrim.scheduler.model.cpu import CpuModel, CpuShare
from wavetrim.scheduler.problem import MEMORIES
from wavetrim.scheduler.profile.machine import KernelModel, LinkModel, MachineProfile
from wavetrim.scheduler.profile.presets import PRESETS
from wavetrim.scheduler.profile.store import build_preset_profile


def make_links(gbytes_per_second: float, call_seconds: float = 1e-4) -> tuple[LinkModel, ...]:
    """Links of one rate, both ways, from every kind of memory."""
    rate = gbytes_per_second
    return tuple(LinkModel(memory, rate, rate, call_seconds, "R4") for memory in MEMORIES)


def make_reference_profile(
    *, cpu_gflops: float = 20.0, link_gbytes_per_second: float = 10.0
) -> MachineProfile:
    """A machine in the manner of R4's: simple kernel with W=4, few slots, a modest CPU.

    One wave of 1280 blocks of 4 x 4 at K = 2048 takes 1.2 ms, so 2048 x 2048 takes 0.246 s in
    205 waves, as Table 17 has it.
    """
    profile = build_preset_profile(PRESETS[0], "reference", 8)
    model = KernelModel("simple", "float32", "4x4x4", 1280, 0.0, 0.0, 1.2e-3 / 2048, "R4")
    links = make_links(link_gbytes_per_second)
    rates = tuple(replace(rate, gflops=cpu_gflops) for rate in profile.cpu.rates)
    shares = tuple(CpuShare(memory, threads=8, copiers=1) for memory in MEMORIES)
    cpu = CpuModel(8, rates, shares)
    return replace(profile, links=links, kernels=(model,), cpu=cpu)
