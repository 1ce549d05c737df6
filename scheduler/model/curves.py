"""The cost curves of one product on one machine."""

from dataclasses import replace
from math import sqrt
from typing import Final

from wavetrim.cpu.blocks import is_small
from wavetrim.kernels.catalog import KernelSpec
from wavetrim.kernels.gemm.splits import find_split_item_bytes
from wavetrim.kernels.pipeline.panels import PanelProblem
from wavetrim.kernels.pipeline.schedule import Rates
from wavetrim.native.tuned import ALONE_SECONDS, LATE_SECONDS
from wavetrim.scheduler.model.corrections import classify_cpu_run, classify_gpu_run
from wavetrim.scheduler.model.cost import CpuCurve
from wavetrim.scheduler.model.cpu import NARROW, CpuRate, CpuShare
from wavetrim.scheduler.model.gpu_curve import GpuCurve
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.machine import KernelModel, LinkModel, MachineProfile

MEMORY_SHARE: Final = 0.9
"""Share of the device memory that buffers may take; chosen. The pipeline asks the driver what is
free."""


def build_cpu_curve(
    problem: GemmProblem,
    profile: MachineProfile,
    share: CpuShare | None = None,
    copying: float = 1.0,
) -> CpuCurve:
    """The CPU's curve.

    Args:
        problem: The product.
        profile: The machine.
        share: How the CPU is shared in a split; None for the CPU alone.
        copying: Share of the GPU part's time in which copies are under way, 0…1.
    """
    rate = profile.find_cpu_rate(problem.dtype)
    if share is None and is_small(problem.m, problem.n, problem.k, problem.dtype):
        return _correct(_build_alone_curve(problem, rate, profile.cpu.threads), problem, profile)
    flop_seconds, element_seconds = 1e-9 / rate.gflops, rate.element_seconds
    packing_seconds = flop_seconds
    narrow_seconds, write_seconds = rate.narrow_seconds, rate.write_seconds
    call_seconds = rate.call_seconds
    if share is not None:
        fewer = profile.cpu.threads / share.threads
        slower = fewer * (1 + (share.stretch - 1) * copying)
        memory_slower = 1 + (share.memory_stretch - 1) * copying
        flop_seconds *= slower
        packing_seconds *= fewer * memory_slower
        narrow_seconds *= fewer * memory_slower
        call_seconds += find_late_seconds(problem)
        element_seconds *= fewer
        write_seconds *= memory_slower
    column_seconds = problem.n * flop_seconds + rate.copy_columns * packing_seconds
    arithmetic_seconds = 2 * problem.k * column_seconds
    row_seconds = arithmetic_seconds + problem.n * element_seconds
    if narrow_seconds and max(problem.n, problem.k) <= NARROW:
        # At least the time of reading A.
        row_seconds = problem.k * max(problem.n * narrow_seconds, rate.vector_seconds)
    curve = CpuCurve(
        row_seconds=max(row_seconds, problem.n * write_seconds),
        startup_rows=rate.startup_rows,
        call_seconds=call_seconds,
        row_quantum=rate.row_quantum,
        vector_seconds=problem.n * problem.k * rate.vector_seconds,
    )
    return _correct(curve, problem, profile, shared=share is not None)


def _correct(
    curve: CpuCurve, problem: GemmProblem, profile: MachineProfile, *, shared: bool = False
) -> CpuCurve:
    """The curve with its factor from earlier runs."""
    run_class = classify_cpu_run(problem, curve.seconds(problem.m), shared=shared)
    return replace(curve, correction=profile.corrections.find(run_class))


def _build_alone_curve(problem: GemmProblem, rate: CpuRate, threads: int) -> CpuCurve:
    """The curve of a product that one thread computes, at its share of the rate of all threads."""
    flops = 2 * problem.k * (problem.n + rate.copy_columns)
    return CpuCurve(row_seconds=flops * threads * 1e-9 / rate.gflops, call_seconds=ALONE_SECONDS)


def build_gpu_curve(
    problem: GemmProblem,
    profile: MachineProfile,
    spec: KernelSpec,
    model: KernelModel,
    sms: int | None = None,
) -> GpuCurve:
    """The GPU's curve with one kernel, without a CPU part.

    Args:
        problem: The product.
        profile: The machine.
        spec: The kernel.
        model: The kernel's times on this machine.
        sms: Limit of multiprocessors; None for all. It reduces the blocks of a wave in proportion,
            not its time.
    """
    gpu = profile.gpu
    assert gpu is not None, "only a machine with a GPU runs kernels"
    held = gpu.sm_count if sms is None else spec.count_held_sms(sms, gpu.sm_count)
    tile = spec.tile
    panels = PanelProblem(
        *(problem.m, problem.n, max(1, problem.k), problem.item_bytes),
        *(tile.m, tile.n, tile.k, max(1, model.slots * held // gpu.sm_count)),
        find_split_item_bytes(spec, problem.k),
        splits_tail=spec.splits_tail,
        splits_short=spec.splits_short,
        staged=problem.memory == "pageable",
    )
    rates = build_rates(problem, profile, model)
    run_class = classify_gpu_run(problem, panels, rates, spec, shared=False)
    return GpuCurve(
        problem=panels,
        rates=rates,
        memory_bytes=int(MEMORY_SHARE * gpu.memory_bytes),
        correction=profile.corrections.find(run_class),
    )


def build_rates(problem: GemmProblem, profile: MachineProfile, model: KernelModel) -> Rates:
    """The rates of a machine's link and one kernel, without a CPU part."""
    gpu, link = profile.gpu, profile.find_link(problem.memory)
    assert gpu is not None, "only a machine with a GPU runs kernels"
    assert link is not None, "a GPU is at the end of a link"
    return Rates(
        in_bytes_per_second=link.in_gbytes_per_second * 1e9,
        out_bytes_per_second=link.out_gbytes_per_second * 1e9,
        duplex=2 * link.together,
        copy_seconds=link.copy_seconds,
        enqueue_seconds=link.step_seconds,
        call_seconds=link.call_seconds + _find_lost_seconds(problem, link),
        launch_seconds=model.launch_seconds,
        wave_seconds=model.wave_seconds,
        depth_seconds=model.wave_k_seconds,
        memory_bytes_per_second=gpu.memory_gbytes_per_second * 1e9,
    )


def find_late_seconds(problem: GemmProblem) -> float:
    """Seconds by which the CPU part of a split starts late."""
    return LATE_SECONDS if problem.memory == "pageable" else 0.0


def _find_lost_seconds(problem: GemmProblem, link: LinkModel) -> float:
    """Seconds that copies of A and B lose until they run at their rates.

    All of the link's `fill_seconds` where the link needs longer than that for their bytes, else a
    share that grows as the root of their bytes: seen on an H200 from 0.3 to 1000 MB.
    """
    moved_bytes = problem.b_bytes + problem.m * problem.a_row_bytes
    moving_seconds = moved_bytes / (link.in_gbytes_per_second * 1e9)
    return sqrt(link.fill_seconds * min(link.fill_seconds, moving_seconds))
