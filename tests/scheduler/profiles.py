"""Profiles of machines for tests: those of presets, of an executor, and one that is made up."""

from dataclasses import replace
from typing import Any, Final

from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.model.cpu import CpuModel, CpuShare
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.problem import MEMORIES
from wavetrim.scheduler.profile.history import RunHistory
from wavetrim.scheduler.profile.machine import KernelModel, LinkModel, MachineProfile
from wavetrim.scheduler.profile.presets import PRESETS
from wavetrim.scheduler.profile.store import build_preset_profile, find_profile


def find_preset_profile(device: str, cpu_threads: int = 16) -> MachineProfile:
    """The profile of a machine by its name, such as "T4", "H200 x2" or "cpu"."""
    return find_profile(device, devices=(), directory=None, cpu_threads=cpu_threads)


H200: Final = find_preset_profile("H200")


def make_learning_machine() -> MachineProfile:
    """A machine with an H200 by its data sheet, and an empty history."""
    return replace(H200, corrections=RunHistory(None, "test"))


def run_as_if(plan: Plan, times: float) -> None:
    """Record a run of a one-device plan that took `times` its uncorrected prediction."""
    (correction,) = plan.corrections
    seconds = plan.predicted.total_seconds / correction.factor
    plan.profile.corrections.note(correction.run_class, seconds, seconds * times)


def change_rates(profile: MachineProfile, **changes: Any) -> MachineProfile:
    """A profile with other fields in all rates of its CPU."""
    rates = tuple(replace(rate, **changes) for rate in profile.cpu.rates)
    return replace(profile, cpu=replace(profile.cpu, rates=rates))


def change_shares(profile: MachineProfile, **changes: Any) -> MachineProfile:
    """A profile with other fields in all shares of its CPU in splits."""
    shares = tuple(replace(share, **changes) for share in profile.cpu.beside_gpu)
    return replace(profile, cpu=replace(profile.cpu, beside_gpu=shares))


def join_profiles(first: MachineProfile, *others: MachineProfile) -> MachineProfile:
    """A machine with the GPUs of all of these, and the CPU of the first."""
    beside = tuple(replace(one, index=index) for index, one in enumerate(others, start=1))
    return replace(first, beside=beside)


def find_executor_profile(executor: Executor) -> MachineProfile:
    """The profile of an executor's devices, without a calibration."""
    return find_profile(
        None, devices=executor.devices, directory=None, cpu_threads=executor.pool.threads
    )


def make_links(gbytes_per_second: float, call_seconds: float = 1e-4) -> tuple[LinkModel, ...]:
    """Links of one rate, both ways, from every kind of memory."""
    rate = gbytes_per_second
    return tuple(LinkModel(memory, rate, rate, call_seconds, "R4") for memory in MEMORIES)


def make_reference_profile(
    *, cpu_gflops: float = 20.0, link_gbytes_per_second: float = 10.0
) -> MachineProfile:
    """A machine like R4's: the simple kernel with W=4, few slots, a slow CPU.

    One wave of 1280 blocks of 4 x 4 at K = 2048 takes 1.2 ms, so 2048 x 2048 takes 0.246 s in
    205 waves, as Table 17 has it.
    """
    profile = build_preset_profile(PRESETS[0], "reference", 8)
    model = KernelModel("simple", "float32", "4x4x4", 1280, 0.0, 0.0, 1.2e-3 / 2048, "R4")
    links = make_links(link_gbytes_per_second)
    rates = change_rates(profile, gflops=cpu_gflops).cpu.rates
    shares = tuple(CpuShare(memory, threads=8, copiers=1) for memory in MEMORIES)
    cpu = CpuModel(8, rates, shares)
    return replace(profile, links=links, kernels=(model,), cpu=cpu)
