"""A GPU that is described by a few properties: one that is neither here nor a preset."""

from dataclasses import dataclass, replace
from pathlib import Path

from wavetrim.kernels.device import DeviceInfo
from wavetrim.scheduler.profile.machine import MachineProfile
from wavetrim.scheduler.profile.store import build_profile_elsewhere, describe_gpu


@dataclass(frozen=True, slots=True)
class DescribedGpu:
    """Properties of a GPU, and how many of it a machine has.

    Attributes:
        sm_count: Streaming multiprocessors.
        clock_mhz: Clock of the multiprocessors.
        compute_capability: Major and minor number.
        memory_gib: Device memory.
        memory_clock_mhz: Clock of the memory, of a bus of 256 bits; None for that of the
            multiprocessors.
        link_standard_gbytes_per_second: Rate of the link in each direction by its standard, 1e9
            bytes a second; None for the rate that is assumed of a GPU that was not calibrated.
        count: GPUs of the machine, at least 1.
    """

    sm_count: int
    clock_mhz: int
    compute_capability: tuple[int, int]
    memory_gib: int
    memory_clock_mhz: int | None = None
    link_standard_gbytes_per_second: float | None = None
    count: int = 1


def build_described_profile(
    gpu: DescribedGpu, *, directory: Path | None, cpu_threads: int
) -> MachineProfile:
    """The profile of such GPUs beside this machine's CPU, by the rule for a GPU without a preset.

    Args:
        gpu: The GPU.
        directory: Folder of stored calibrations; None for none.
        cpu_threads: Threads of the CPU path.
    """
    info = DeviceInfo(
        index=0, name="described GPU", uuid="", compute_capability=gpu.compute_capability,
        sm_count=gpu.sm_count, memory_bytes=gpu.memory_gib * 2**30, clock_mhz=gpu.clock_mhz,
        memory_clock_mhz=gpu.memory_clock_mhz or 0, driver_version="", runtime_version="",
    )  # fmt: skip
    sheet = replace(describe_gpu(info), source="derived from the properties that were asked for")
    if (rate := gpu.link_standard_gbytes_per_second) is not None:
        sheet = replace(sheet, link_gbytes_per_second=rate)
    return build_profile_elsewhere(sheet, sheet.source, gpu.count, directory, cpu_threads)
