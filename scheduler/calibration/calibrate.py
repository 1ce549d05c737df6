"""Measures a machine: its CPU, every GPU, one after the other, and then their links together.

Of several GPUs of one model the first is measured, of the others only the links.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from wavetrim.kernels.compile import compile_kernels
from wavetrim.kernels.device import DeviceInfo
from wavetrim.kernels.timing.joint_rates import measure_joint_rates, measure_peer_rate
from wavetrim.scheduler.calibration.cpu import measure_cpu
from wavetrim.scheduler.calibration.gpu import (
    GpuBench,
    Report,
    list_measured,
    measure_kernels,
    measure_links,
)
from wavetrim.scheduler.calibration.repetition import OperandMemory
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.estimate import estimate_links
from wavetrim.scheduler.profile.machine import JointLinks, MachineProfile
from wavetrim.scheduler.profile.presets import describe_gpu
from wavetrim.scheduler.profile.store import read_key

CALIBRATION_SECONDS: Final = 10.0
"""Time that a calibration takes at most once kernels and C are compiled, with one GPU."""

_WAKE_SECONDS: Final = 0.15
_WAKING: Final = GemmProblem(2048, 2048, 2048)
"""Time after which a GPU has its clocks and its link its speed, and the products for it; chosen."""

_KERNELS_SHARE, _LINKS_SHARE = 0.2, 0.6
"""Reported progress at which these begin; chosen."""

_COPIED_BYTES: Final = 256 << 20
_RUNS: Final = 12
"""Bytes and runs of the copies that are timed; chosen."""


def calibrate_gpus(
    open_executor: Callable[[Sequence[DeviceInfo]], Executor],
    devices: Sequence[DeviceInfo],
    *,
    cache_dir: Path,
    report: Report | None = None,
) -> MachineProfile:
    """Measure this machine with all of these GPUs, each once; nothing is stored.

    Returns:
        The profile of the first GPU, with those of the others beside it.
    """
    found: dict[int, MachineProfile] = {}
    different: list[DeviceInfo | None] = [*dict.fromkeys(devices)] or [None]
    for number, device in enumerate(different):

        def tell(what: str, share: float, number: int = number) -> None:
            if report is not None:
                name = f"{what} of GPU {number}" if len(different) > 1 else what
                report(name, (number + share) / len(different))

        with open_executor([] if device is None else [device]) as executor:
            gpu = None if device is None else describe_gpu(device)
            like = next((one for one in found.values() if one.gpu == gpu), None)
            if like is not None:
                profile = _calibrate_another(executor, like, tell)
            else:
                profile = calibrate(executor, cache_dir=cache_dir, report=tell)
        found[profile.index] = profile
    if len(devices) < 2:
        return next(iter(found.values()))
    joint = _measure_joint([device.index for device in devices])
    first, *beside = (replace(found[device.index], joint=joint) for device in devices)
    return replace(first, beside=tuple(beside))


def calibrate(
    executor: Executor, *, cache_dir: Path, report: Report | None = None
) -> MachineProfile:
    """Measure the executor's pool and first GPU, as they run in products; nothing is stored."""
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
        bench = GpuBench(executor, {"pageable": memory})
        profile = _measure_gpu(bench, profile, info, cache_dir, tell)
    tell("done", 1.0)
    return profile


def _calibrate_another(executor: Executor, first: MachineProfile, report: Report) -> MachineProfile:
    """The profile of a GPU of the same model as a calibrated one: only its links are measured.

    Links depend on where a GPU is in the machine. Kernels are the first one's.
    """
    info = executor.devices[0]
    report("link", 0.0)
    profile = replace(first, index=info.index, key=read_key(info, first.cpu.threads))
    bench = GpuBench(executor)
    _wake_gpu(bench, profile)
    links, _ = measure_links(bench, profile, first.links[0].source)
    return replace(profile, links=links)


def _measure_gpu(
    bench: GpuBench, profile: MachineProfile, info: DeviceInfo, cache_dir: Path, tell: Report
) -> MachineProfile:
    """The profile with a GPU: kernels, then links by their rates."""
    gpu, source = describe_gpu(info), profile.cpu.source
    links = estimate_links(gpu)
    profile = replace(profile, device=info.name, gpu=gpu, links=links, index=info.index)
    _wake_gpu(bench, profile)

    def tell_kernel(label: str, share: float) -> None:
        tell(label, _KERNELS_SHARE + (_LINKS_SHARE - _KERNELS_SHARE) * share)

    kernels = measure_kernels(gpu, info.index, cache_dir, source, tell=tell_kernel)
    profile = replace(profile, kernels=kernels)
    tell("link", _LINKS_SHARE)
    links, cpu = measure_links(bench, profile, source)
    return replace(profile, links=links, cpu=cpu)


def _wake_gpu(bench: GpuBench, profile: MachineProfile) -> None:
    """Run products until the GPU has its clocks and its link its speed."""
    plan = choose_plan(_WAKING, profile, PlanOptions(f=0))
    a, b, c = bench.take(_WAKING)
    awake = time.perf_counter() + _WAKE_SECONDS
    while time.perf_counter() < awake:
        bench.executor.run(plan, a, b, c)


def _measure_joint(indices: Sequence[int]) -> JointLinks:
    """What the links of these GPUs reach together, from page-locked memory."""
    rates = measure_joint_rates(indices, _COPIED_BYTES, _RUNS)
    peer = min(measure_peer_rate(indices[0], other, _COPIED_BYTES, _RUNS) for other in indices[1:])
    return JointLinks(
        in_gbytes_per_second=rates.in_bytes_per_second / 1e9,
        out_gbytes_per_second=rates.out_bytes_per_second / 1e9,
        both_gbytes_per_second=rates.both_bytes_per_second / 1e9,
        peer_gbytes_per_second=peer / 1e9,
        source="measured with all of these GPUs",
    )
