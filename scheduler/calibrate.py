"""Measures a profile of this machine: the CPU's line, the link, the kernels' staircases."""

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from cpu.gemm import CpuPool
from scheduler.contention import measure_contention
from scheduler.estimate import count_threads_beside_gpu, estimate_cpu, share_cpu
from scheduler.execute import Executor
from scheduler.kernel_survey import Report, measure_kernels
from scheduler.link_survey import measure_link, measure_step
from scheduler.machine import CpuModel, CpuRate, CpuShare, LinkModel, MachineProfile
from scheduler.problem import ITEM_BYTES, MEMORIES
from scheduler.profile import complete_kernels, describe_gpu, read_key, store_profile
from scheduler.repetition import repeat
from scheduler.row_cost import fit_row_cost

_CPU_ROWS: Final = (16, 64, 256)
_CPU_SIDES: Final = (256, 512, 1024, 2048, 4096)
_SHALLOW_ROWS: Final = 1024
_SHALLOWER: Final = 16
_CPU_PRODUCT_SECONDS: Final = 0.02
_CPU_SECONDS: Final = 0.25
_BRIEF_SECONDS: Final = 0.1
_DRAWN: Final = 65_521
"""Random elements, over and over: drawing all of them would take longer than multiplying."""

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
        gpu = describe_gpu(info)
        cpu, links = measure_links(executor, cpu, gpu.sm_count, f"measured {stamp}")

        def tell_kernel(label: str, share: float) -> None:
            tell(label, _LINK_SHARE + (1 - _LINK_SHARE) * share)

        kernels = measure_kernels(gpu, info, cache_dir, f"measured {stamp}", tell_kernel)
        profile = replace(profile, device=info.name, cpu=cpu, gpu=gpu, links=links)
        profile = replace(profile, kernels=kernels)
        profile = complete_kernels(profile)
        step_seconds = measure_step(executor.pipeline, profile)
        links = tuple(_tell_step_apart(link, step_seconds) for link in links)
        profile = replace(profile, links=links)
    if directory is not None:
        store_profile(profile, directory)
    tell("done", 1.0)
    return profile


def measure_cpu(executor: Executor, source: str) -> CpuModel:
    """The CPU's line for every element type: seconds over rows, fitted by least squares."""
    pool = executor.pool
    assumed = estimate_cpu(pool.threads)
    rates = tuple(_measure_rate(pool, rate, source, _CPU_SECONDS) for rate in assumed.rates)
    return CpuModel(pool.threads, rates, share_cpu(pool.threads))


def measure_links(
    executor: Executor, cpu: CpuModel, sm_count: int, source: str
) -> tuple[CpuModel, tuple[LinkModel, ...]]:
    """The way to the GPU from every kind of memory, and what it and the CPU part take from another.

    Returns:
        The CPU with what is left of it beside the GPU, and the links.
    """
    pipeline, pool = executor.pipeline, executor.pool
    assert pipeline is not None, "links are measured where there is a GPU"
    rate = next(rate for rate in cpu.rates if rate.dtype == "float32")
    shares, links = [], []
    for memory in MEMORIES:
        threads = count_threads_beside_gpu(pool.threads, memory)
        link = measure_link(pipeline, memory, sm_count=sm_count, source=source)
        contention = measure_contention(pipeline, pool, memory, threads=threads, rate=rate)
        links.append(replace(link, beside_cpu_stretch=contention.link_stretch))
        shares.append(CpuShare(memory, threads, contention.cpu_stretch, contention.element_stretch))
    return replace(cpu, beside_gpu=tuple(shares)), tuple(links)


def _tell_step_apart(link: LinkModel, step_seconds: float) -> LinkModel:
    """The link with what a step costs, of which there is one in a call of the tiny product."""
    call_seconds = max(0.0, link.call_seconds - step_seconds)
    return replace(link, call_seconds=call_seconds, step_seconds=step_seconds)


def measure_cpu_briefly(executor: Executor) -> CpuModel:
    """The CPU from a tenth of a second of float32, for a machine that was never calibrated.

    The other element types keep the ratio to float32 that the estimate gives them.
    """
    pool = executor.pool
    assumed = {rate.dtype: rate for rate in estimate_cpu(pool.threads).rates}
    measured = _measure_rate(pool, assumed["float32"], "", _BRIEF_SECONDS)
    ratio = measured.gflops / assumed["float32"].gflops
    source = "scaled from a brief measurement of float32 when the engine started"
    rates = tuple(
        replace(
            rate,
            gflops=rate.gflops * ratio,
            startup_rows=measured.startup_rows,
            element_seconds=measured.element_seconds * ITEM_BYTES[rate.dtype] / 4,
            source=source,
        )
        for rate in assumed.values()
    )
    return CpuModel(pool.threads, rates, share_cpu(pool.threads))


def _measure_rate(pool: CpuPool, assumed: CpuRate, source: str, budget_seconds: float) -> CpuRate:
    """One element type's line, from products over few and many rows and two smaller ones.

    The time that the first row costs on top is part rows' worth of time, as B must be read, and
    part the same for every product: one of a quarter the side tells them apart. What an element of
    C costs by itself shows where K is a sixteenth.
    """
    side = _choose_side(assumed)
    seconds = [_time_pool(pool, (m, side, side), assumed.dtype, budget_seconds) for m in _CPU_ROWS]
    slope, intercept = map(float, np.polyfit(_CPU_ROWS, seconds, 1))
    most = _CPU_ROWS[-1]
    row_seconds = max(slope, seconds[-1] / most / 2)
    small_row_seconds = row_seconds / 16
    small = most, side // 4, side // 4
    small_seconds = _time_pool(pool, small, assumed.dtype, budget_seconds)
    beyond = intercept - (small_seconds - most * small_row_seconds)
    startup_rows = max(0.0, beyond / (row_seconds - small_row_seconds))
    call_seconds = max(0.0, intercept - startup_rows * row_seconds)
    m, k = _SHALLOW_ROWS, side // _SHALLOWER
    shallow_seconds = _time_pool(pool, (m, side, k), assumed.dtype, budget_seconds) - call_seconds
    shallow_row_seconds = max(0.0, shallow_seconds) / (m + startup_rows)
    cost = fit_row_cost(side, (side, row_seconds), (k, shallow_row_seconds))
    return replace(
        assumed,
        gflops=1e-9 / cost.flop_seconds,
        startup_rows=startup_rows,
        call_seconds=call_seconds,
        source=source,
        element_seconds=cost.element_seconds,
    )


def _time_pool(
    pool: CpuPool, shape: tuple[int, int, int], dtype: str, budget_seconds: float
) -> float:
    """The least seconds of a product of M, N, K: what others do on the machine is not meant."""
    m, n, k = shape
    drawn = (np.random.default_rng(0).random(_DRAWN) * 100).astype(dtype)
    a, b = (np.resize(drawn, size) for size in ((m, k), (k, n)))
    c = np.zeros((m, n), dtype)
    budget_seconds /= len(_CPU_ROWS)
    return repeat(partial(pool.multiply, a, b, c), budget_seconds, choose=min)


def _choose_side(assumed: CpuRate) -> int:
    """N and K of the measured products: as large as the time set aside for one allows.

    Small products do not fill the pool, and would make the CPU look slower than it is.
    """
    flops = assumed.gflops * 1e9 * _CPU_PRODUCT_SECONDS
    fitting = [side for side in _CPU_SIDES if 2 * _CPU_ROWS[-1] * side * side <= flops]
    return max(fitting, default=_CPU_SIDES[0])
