"""Measures the profile of this machine: the CPU's line, the links, the kernels' times."""

import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from wavetrim.kernels.compile import compile_kernels
from wavetrim.kernels.device import DeviceInfo
from wavetrim.scheduler.calibration.contention import measure_shares
from wavetrim.scheduler.calibration.cpu import measure_cpu, measure_tiny_calls
from wavetrim.scheduler.calibration.kernels import Report, measure_kernels, order_kernels
from wavetrim.scheduler.calibration.latencies import measure_latencies
from wavetrim.scheduler.calibration.links import (
    PipelineProfile,
    measure_links,
    measure_links_again,
    wake_gpu,
)
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.profile.estimate import share_cpu
from wavetrim.scheduler.profile.machine import MachineProfile
from wavetrim.scheduler.profile.store import (
    build_preset_profile,
    complete_kernels,
    describe_gpu,
    read_key,
    store_profile,
)

_LINK_SHARE: Final = 0.1
"""Reported progress when the links' measurement begins; chosen."""

CALIBRATION_SECONDS: Final = 17.0
"""Time of a calibration once kernels and C are compiled; chosen, so that all takes at most 20 s.
CPU and links come first, kernels take the rest."""

_CPU_SECONDS: Final = 4.0
"""Time after which the CPU is measured as briefly as possible; chosen."""

_LINKS_UNTIL_SECONDS: Final = 8.0
"""Time after which links and contention are measured as briefly as possible; chosen."""

_LATENCIES_SECONDS: Final = 3.5
"""Time for `measure_latencies`: 15 products of up to a third of a second; chosen."""

_LEAST_KERNEL_SECONDS: Final = 6.0
"""Least time for kernels, the likely winners first, if all else takes long; chosen."""


def calibrate(
    executor: Executor, *, cache_dir: Path, directory: Path | None, report: Report | None = None
) -> MachineProfile:
    """Measure this machine and store the profile.

    Args:
        executor: Its pool and pipeline are measured, as they run in products.
        cache_dir: Folder of compiled kernels.
        directory: Folder for the profile; None not to store it.
        report: Called with what is being measured.
    """
    stamp = datetime.now(UTC).isoformat(timespec="seconds")
    info = executor.devices[0] if executor.devices else None
    tell = report or (lambda _what, _share: None)
    # Both take long the first time, before they are cached.
    tell("kernels and C are compiled", 0.0)
    executor.pool.prepare()
    if info is not None:
        compile_kernels(order_kernels(describe_gpu(info)), info.arch, cache_dir)
    began = time.perf_counter()
    tell("CPU", 0.0)
    cpu = measure_cpu(executor.pool, f"measured {stamp}", until=began + _CPU_SECONDS)
    profile = MachineProfile(
        device="cpu",
        source=f"measured on this machine {stamp}",
        cpu=cpu,
        key=read_key(info, cpu.threads),
        measured_at=stamp,
    )
    profile = measure_tiny_calls(executor, profile)
    if info is not None:
        profile = _measure_gpu(executor, profile, info, cache_dir, began=began, tell=tell)
    if directory is not None:
        store_profile(profile, directory)
    tell("done", 1.0)
    return profile


def calibrate_another(
    executor: Executor, first: MachineProfile, *, report: Report | None = None
) -> MachineProfile:
    """The profile of a GPU of the same model as a calibrated one: only its links are measured.

    Links depend on where a GPU is in the machine. Its kernels and calls take as long as the first
    one's; what differs is left to the corrections.

    Args:
        executor: Its pipeline is measured.
        first: The profile of the other GPU.
        report: Called with what is being measured.
    """
    info = executor.devices[0]
    if report is not None:
        report("link", 0.0)
    measured = PipelineProfile(executor, replace(first, index=info.index))
    wake_gpu(measured)
    links = measure_links_again(measured, first.links, device_index=info.index)
    return replace(measured.profile, links=links, key=read_key(info, first.cpu.threads))


def _measure_gpu(
    executor: Executor,
    profile: MachineProfile,
    info: DeviceInfo,
    cache_dir: Path,
    *,
    began: float,
    tell: Report,
) -> MachineProfile:
    """The profile with a GPU: links and contention, then kernels, then latencies."""
    source = f"measured {profile.measured_at}"
    gpu, threads = describe_gpu(info), profile.cpu.threads
    measured = PipelineProfile(
        executor,
        build_preset_profile(gpu, "estimated", threads),
        until=began + _LINKS_UNTIL_SECONDS,
    )
    tell("link", _LINK_SHARE)
    wake_gpu(measured)
    links = measure_links(measured, device_index=info.index, source=source)
    rate = profile.find_cpu_rate("float32")
    shares = measure_shares(measured, share_cpu(threads), rate)

    def tell_kernel(label: str, share: float) -> None:
        tell(label, _LINK_SHARE + (1 - _LINK_SHARE) * share)

    ends = began + CALIBRATION_SECONDS
    until = max(ends - _LATENCIES_SECONDS, time.perf_counter() + _LEAST_KERNEL_SECONDS)
    profile = replace(
        profile,
        device=info.name,
        cpu=replace(profile.cpu, beside_gpu=shares),
        gpu=gpu,
        links=links,
        kernels=measure_kernels(gpu, info, cache_dir, source, until=until, tell=tell_kernel),
    )
    profile = complete_kernels(profile)
    return measure_latencies(replace(measured, profile=profile, until=ends))
