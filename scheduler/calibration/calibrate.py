"""Measures the profile of this machine: the CPU's line, the links, the kernels' times."""

import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from wavetrim.kernels.compile import compile_kernels
from wavetrim.scheduler.calibration.contention import measure_shares
from wavetrim.scheduler.calibration.cpu import measure_cpu
from wavetrim.scheduler.calibration.kernels import Report, measure_kernels, order_kernels
from wavetrim.scheduler.calibration.latencies import measure_latencies
from wavetrim.scheduler.calibration.links import PipelineProfile, measure_link, wake_gpu
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.model.cpu import CpuModel
from wavetrim.scheduler.problem import MEMORIES
from wavetrim.scheduler.profile.estimate import share_cpu
from wavetrim.scheduler.profile.machine import LinkModel, MachineProfile
from wavetrim.scheduler.profile.store import (
    build_preset_profile,
    complete_kernels,
    describe_gpu,
    read_key,
    store_profile,
)

_LINK_SHARE: Final = 0.1
"""Progress that is reported once the CPU has been measured."""

CALIBRATION_SECONDS: Final = 20.0
"""Time of a calibration once kernels are compiled; chosen. CPU and links come first, and kernels
take the rest."""

_CPU_SECONDS: Final = 4.0
"""Time after which the CPU is measured as briefly as can be; chosen."""

_LINKS_UNTIL_SECONDS: Final = 8.0
"""Time after which links and contention are measured as briefly as can be; chosen."""

_LATENCIES_SECONDS: Final = 3.5
"""Part of the time for `measure_latencies`: 15 products of up to a third of a second."""

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
    if info is not None:  # takes long once, and nothing when it is in the cache
        tell("kernels are compiled", 0.0)
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
    if info is not None and executor.pipeline is not None:
        tell("link", _LINK_SHARE)
        gpu = describe_gpu(info)
        measured = PipelineProfile(
            executor.pipeline,
            build_preset_profile(gpu, "estimated", cpu.threads),
            until=began + _LINKS_UNTIL_SECONDS,
        )
        cpu, links = measure_links(executor, measured, cpu, info.index, f"measured {stamp}")

        def tell_kernel(label: str, share: float) -> None:
            tell(label, _LINK_SHARE + (1 - _LINK_SHARE) * share)

        ends = began + CALIBRATION_SECONDS
        until = max(ends - _LATENCIES_SECONDS, time.perf_counter() + _LEAST_KERNEL_SECONDS)
        kernels = measure_kernels(
            gpu, info, cache_dir, f"measured {stamp}", until=until, tell=tell_kernel
        )
        profile = replace(profile, device=info.name, cpu=cpu, gpu=gpu, links=links)
        profile = replace(profile, kernels=kernels)
        profile = complete_kernels(profile)
        profile = measure_latencies(replace(measured, profile=profile, until=ends))
    if directory is not None:
        store_profile(profile, directory)
    tell("done", 1.0)
    return profile


def measure_links(
    executor: Executor, measured: PipelineProfile, cpu: CpuModel, device_index: int, source: str
) -> tuple[CpuModel, tuple[LinkModel, ...]]:
    """Measure the links from each kind of memory, and contention in splits.

    Returns:
        The CPU with its contention, and the links.
    """
    wake_gpu(measured)
    pool = executor.pool
    rate = next(rate for rate in cpu.rates if rate.dtype == "float32")
    links = tuple(
        measure_link(measured, memory, device_index=device_index, source=source)
        for memory in MEMORIES
    )
    shares = measure_shares(measured, pool, share_cpu(pool.threads), rate)
    return replace(cpu, beside_gpu=shares), links
