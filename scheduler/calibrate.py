"""Measures a profile of this machine: the CPU's line, the link, the kernels' staircases."""

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from cpu.gemm import CpuPool
from scheduler.estimate import estimate_cpu
from scheduler.execute import Executor
from scheduler.kernel_survey import Report, measure_kernels
from scheduler.link_survey import measure_contention, measure_link
from scheduler.machine import CpuModel, CpuRate, MachineProfile
from scheduler.profile import complete_kernels, describe_gpu, read_key, store_profile
from scheduler.repetition import repeat

_CPU_ROWS: Final = (16, 64, 256)
_CPU_SIDES: Final = (256, 512, 1024, 2048, 4096)
_CPU_PRODUCT_SECONDS: Final = 0.02
_CPU_SECONDS: Final = 0.25
_BRIEF_SECONDS: Final = 0.1

_LINK_SHARE: Final = 0.1


def calibrate(
    executor: Executor, *, cache_dir: Path, directory: Path | None, report: Report | None = None
) -> MachineProfile:
    """Measure this machine and store the profile.

    Args:
        executor: Owns the pools and the pipeline that are measured, so the figures are those of
            real executions.
        cache_dir: Folder of compiled kernels.
        directory: Folder to store the profile in; None to measure only.
        report: Told what is being measured.
    """
    stamp = datetime.now(UTC).isoformat(timespec="seconds")
    info = executor.devices[0] if executor.devices else None
    tell = report or (lambda _what, _share: None)
    tell("CPU", 0.0)
    cpu = measure_cpu(executor, f"measured {stamp}")
    profile = MachineProfile(
        device="cpu",
        source=f"measured on this machine {stamp}",
        cpu=cpu,
        key=read_key(info, cpu.threads),
        measured_at=stamp,
    )
    if info is not None and executor.pipeline is not None:
        tell("link", _LINK_SHARE)
        gpu, link = describe_gpu(info), measure_link(executor.pipeline, f"measured {stamp}")
        tell("link beside the CPU", _LINK_SHARE)
        contention = measure_contention(executor.pipeline, executor.pool_beside)
        link = replace(link, beside_cpu_stretch=contention.link_stretch)
        cpu = replace(cpu, beside_gpu_stretch=contention.cpu_stretch)

        def tell_kernel(label: str, share: float) -> None:
            tell(label, _LINK_SHARE + (1 - _LINK_SHARE) * share)

        kernels = measure_kernels(gpu, info, cache_dir, f"measured {stamp}", tell_kernel)
        profile = replace(profile, device=info.name, cpu=cpu, gpu=gpu, link=link, kernels=kernels)
        profile = complete_kernels(profile)
    if directory is not None:
        store_profile(profile, directory)
    tell("done", 1.0)
    return profile


def measure_cpu(executor: Executor, source: str) -> CpuModel:
    """The CPU's line for every element type: seconds over rows, fitted by least squares."""
    pool, beside = executor.pool_alone, executor.pool_beside
    assumed = estimate_cpu(pool.threads)
    rates = tuple(_measure_rate(pool, rate, source, _CPU_SECONDS) for rate in assumed.rates)
    return CpuModel(pool.threads, beside.threads, rates)


def measure_cpu_briefly(executor: Executor) -> CpuModel:
    """The CPU from a tenth of a second of float32, for a machine that was never calibrated.

    The other element types keep the ratio to float32 that the estimate gives them.
    """
    pool, beside = executor.pool_alone, executor.pool_beside
    assumed = {rate.dtype: rate for rate in estimate_cpu(pool.threads).rates}
    measured = _measure_rate(pool, assumed["float32"], "", _BRIEF_SECONDS)
    ratio = measured.gflops / assumed["float32"].gflops
    source = "scaled from a brief measurement of float32 when the engine started"
    rates = tuple(
        replace(rate, gflops=rate.gflops * ratio, startup_rows=measured.startup_rows, source=source)
        for rate in assumed.values()
    )
    return CpuModel(pool.threads, beside.threads, rates)


def _measure_rate(pool: CpuPool, assumed: CpuRate, source: str, budget_seconds: float) -> CpuRate:
    """One element type's line, from products over few and many rows and one of a quarter the side.

    The time that the first row costs on top is part rows' worth of time, as B must be read, and
    part the same for every product; the smaller product tells them apart.
    """
    side = _choose_side(assumed)
    seconds = [_time_pool(pool, rows, side, assumed.dtype, budget_seconds) for rows in _CPU_ROWS]
    slope, intercept = map(float, np.polyfit(_CPU_ROWS, seconds, 1))
    most = _CPU_ROWS[-1]
    row_seconds = max(slope, seconds[-1] / most / 2)
    small_row_seconds = row_seconds / 16
    small_seconds = _time_pool(pool, most, side // 4, assumed.dtype, budget_seconds)
    beyond = intercept - (small_seconds - most * small_row_seconds)
    startup_rows = max(0.0, beyond / (row_seconds - small_row_seconds))
    call_seconds = max(0.0, intercept - startup_rows * row_seconds)
    return replace(
        assumed,
        gflops=2 * side * side / row_seconds / 1e9,
        startup_rows=startup_rows,
        call_seconds=call_seconds,
        source=source,
    )


def _time_pool(pool: CpuPool, rows: int, side: int, dtype: str, budget_seconds: float) -> float:
    """Median seconds of `rows` rows against a B of `side` x `side`."""
    rng = np.random.default_rng(0)
    a, b = ((rng.random(shape) * 100).astype(dtype) for shape in ((rows, side), (side, side)))
    c = np.empty((rows, side), dtype)
    return repeat(partial(pool.multiply, a, b, c), budget_seconds / len(_CPU_ROWS))


def _choose_side(assumed: CpuRate) -> int:
    """N and K of the measured products: as large as the time set aside for one allows.

    Small products do not fill the pool, and would make the CPU look slower than it is.
    """
    flops = assumed.gflops * 1e9 * _CPU_PRODUCT_SECONDS
    fitting = [side for side in _CPU_SIDES if 2 * _CPU_ROWS[-1] * side * side <= flops]
    return max(fitting, default=_CPU_SIDES[0])
