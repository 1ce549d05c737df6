"""Measures the profile of a machine with one GPU or none."""

import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from wavetrim.kernels.compile import compile_kernels
from wavetrim.kernels.device import DeviceInfo
from wavetrim.scheduler.calibration.cpu import measure_cpu
from wavetrim.scheduler.calibration.kernels import Report, list_measured, measure_kernels
from wavetrim.scheduler.calibration.links import GpuBench, measure_links
from wavetrim.scheduler.calibration.repetition import OperandMemory
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.estimate import estimate_links
from wavetrim.scheduler.profile.machine import MachineProfile
from wavetrim.scheduler.profile.presets import describe_gpu
from wavetrim.scheduler.profile.store import read_key, store_profile

CALIBRATION_SECONDS: Final = 10.0
"""Time that a calibration takes at most once kernels and C are compiled, with one GPU."""

_WAKE_SECONDS: Final = 0.15
_WAKING: Final = GemmProblem(2048, 2048, 2048)
"""Time after which a GPU has its clocks and its link its speed, and the products for it; chosen."""

_KERNELS_SHARE, _LINKS_SHARE = 0.2, 0.6
"""Reported progress at which these begin; chosen."""


def calibrate(
    executor: Executor, *, cache_dir: Path, directory: Path | None, report: Report | None = None
) -> MachineProfile:
    """Measure this machine and store the profile.

    Args:
        executor: Its pool and its first GPU are measured, as they run in products.
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
        compile_kernels(list_measured(describe_gpu(info)), info.arch, cache_dir)
    tell("CPU", 0.0)
    memory = OperandMemory()
    profile = MachineProfile(
        device="cpu",
        source=f"measured on this machine {stamp}",
        cpu=measure_cpu(executor.pool, memory, f"measured {stamp}"),
        key=read_key(info, executor.pool.threads),
        measured_at=stamp,
    )
    if info is not None:
        bench = GpuBench(executor, profile, {"pageable": memory})
        profile = _measure_gpu(bench, info, cache_dir, tell)
    if directory is not None:
        store_profile(profile, directory)
    tell("done", 1.0)
    return profile


def calibrate_another(
    executor: Executor, first: MachineProfile, *, report: Report | None = None
) -> MachineProfile:
    """The profile of a GPU of the same model as a calibrated one: only its links are measured.

    Links depend on where a GPU is in the machine. Kernels are the first one's.
    """
    info = executor.devices[0]
    if report is not None:
        report("link", 0.0)
    profile = replace(first, index=info.index, key=read_key(info, first.cpu.threads))
    bench = GpuBench(executor, profile)
    _wake_gpu(bench)
    links, _ = measure_links(bench, first.links[0].source)
    return replace(profile, links=links)


def _measure_gpu(
    bench: GpuBench, info: DeviceInfo, cache_dir: Path, tell: Report
) -> MachineProfile:
    """The profile with a GPU: kernels, then links by their rates."""
    gpu, source = describe_gpu(info), bench.profile.cpu.source
    profile = replace(
        bench.profile, device=info.name, gpu=gpu, links=estimate_links(gpu), index=info.index
    )
    bench = replace(bench, profile=profile)
    _wake_gpu(bench)

    def tell_kernel(label: str, share: float) -> None:
        tell(label, _KERNELS_SHARE + (_LINKS_SHARE - _KERNELS_SHARE) * share)

    kernels = measure_kernels(gpu, info.index, cache_dir, source, tell=tell_kernel)
    bench = replace(bench, profile=replace(profile, kernels=kernels))
    tell("link", _LINKS_SHARE)
    links, cpu = measure_links(bench, source)
    return replace(bench.profile, links=links, cpu=cpu)


def _wake_gpu(bench: GpuBench) -> None:
    """Run products until the GPU has its clocks and its link its speed."""
    plan = bench.plan(_WAKING, 0)
    a, b, c = bench.take(_WAKING)
    awake = time.perf_counter() + _WAKE_SECONDS
    while time.perf_counter() < awake:
        bench.executor.run(plan, a, b, c)
