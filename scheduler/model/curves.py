"""The cost curves of one product on one machine."""

from dataclasses import replace
from math import sqrt
from typing import Final

from wavetrim.cpu.blocks import count_shares, is_small
from wavetrim.kernels.schedule.panels import describe_product
from wavetrim.kernels.schedule.schedule import Rates
from wavetrim.kernels.spec import KernelSpec
from wavetrim.native.tuned import SMALL_PRODUCT_BYTES, STREAMED_ROW_BYTES
from wavetrim.scheduler.model.corrections import classify_cpu_run, classify_gpu_run
from wavetrim.scheduler.model.cost import CpuCurve
from wavetrim.scheduler.model.cpu import NARROW, CpuModel, CpuRate, CpuShare
from wavetrim.scheduler.model.gpu_curve import GpuCurve
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.machine import KernelModel, LinkModel, MachineProfile

MEMORY_SHARE: Final = 0.9
"""Share of the device memory that a plan gives to buffers. Chosen: only the pipeline can ask the
driver what is free."""

STREAMED_DTYPES: Final = "float32", "float64", "complex64", "complex128"
STREAMED_TIMES: Final = 4
STREAMED_BYTES: Final = 128 << 20
"""What of C the CPU writes past the caches: that of these element types, with at least this many
times K rows and columns, and with more than these bytes, whatever the size of the caches. Chosen in
`cpu/native/streamed.c`; a test compares them."""


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
    if share is None:
        alone = _build_alone_curve(problem, rate, profile.cpu)
        return _correct(alone, problem, profile)
    fewer = profile.cpu.threads / share.threads
    slower = 1 + (share.stretch - 1) * copying
    memory_slower = 1 + (share.memory_stretch - 1) * copying
    row_seconds = _find_row_seconds(
        problem,
        rate,
        profile.cpu,
        fewer=fewer,
        slower=slower,
        memory_slower=memory_slower,
        write_slower=1 + (share.write_stretch - 1) * copying,
    )
    call_seconds = rate.call_seconds + share.late_seconds
    read_seconds = problem.n * problem.k * rate.vector_seconds
    curve = CpuCurve(
        row_seconds=row_seconds,
        startup_rows=rate.startup_rows,
        call_seconds=call_seconds,
        row_quantum=rate.row_quantum,
        vector_seconds=call_seconds + read_seconds if read_seconds else 0.0,
    )
    return _correct(curve, problem, profile, shared=True)


def find_writing_share(problem: GemmProblem, profile: MachineProfile) -> float:
    """Share of the CPU's time for a row in which memory is written, 0…1."""
    rate, cpu = profile.find_cpu_rate(problem.dtype), profile.cpu
    row_seconds = _find_row_seconds(problem, rate, cpu, fewer=1.0)
    return _find_written_seconds(problem, rate, cpu) / row_seconds if row_seconds else 0.0


def _correct(
    curve: CpuCurve, problem: GemmProblem, profile: MachineProfile, *, shared: bool = False
) -> CpuCurve:
    """The curve with its factor from earlier runs."""
    run_class = classify_cpu_run(problem, curve.seconds(problem.m), shared=shared)
    return replace(curve, correction=profile.corrections.find(run_class))


def _build_alone_curve(problem: GemmProblem, rate: CpuRate, cpu: CpuModel) -> CpuCurve:
    """The curve without a GPU part.

    Several threads take at least the time of moving A, B and C through memory. One thread reads B
    in addition to its arithmetic, because nothing hides that.
    """
    m, n, k, threads = problem.m, problem.n, problem.k, cpu.threads
    if is_small(m, n, k, problem.dtype):
        flop_seconds = 1e-9 / rate.find_gflops(1, threads)
        row_seconds = 2 * k * (n + rate.cached_copy_columns) * flop_seconds
        startup_rows = k * n * rate.read_seconds / row_seconds
        return CpuCurve(row_seconds, startup_rows, rate.alone_seconds)
    taking = count_shares(m, n, k, threads)
    fewer = rate.gflops / rate.find_gflops(taking, threads)
    row_seconds = _find_row_seconds(problem, rate, cpu, fewer=fewer)
    read_seconds = max(rate.vector_seconds, rate.read_seconds / taking)
    # Waking fewer threads takes less time.
    waking_seconds = max(0.0, rate.call_seconds - rate.alone_seconds) * taking / threads
    call_seconds = min(rate.call_seconds, rate.alone_seconds + waking_seconds)
    return CpuCurve(
        row_seconds=row_seconds,
        startup_rows=max(rate.startup_rows, k * n * read_seconds / row_seconds),
        call_seconds=call_seconds,
        row_quantum=rate.row_quantum,
        vector_seconds=call_seconds + k * n * read_seconds if read_seconds else 0.0,
    )


def _find_row_seconds(
    problem: GemmProblem,
    rate: CpuRate,
    cpu: CpuModel,
    *,
    fewer: float,
    slower: float = 1.0,
    memory_slower: float = 1.0,
    write_slower: float = 1.0,
) -> float:
    """Seconds of a row: its arithmetic and elements; in a narrow product its multiply-adds.

    At least the time to read A and write C, as far as the caches do not hold them; a C that is
    written past them takes the time of all of it.

    Args:
        problem: The product.
        rate: The rate of all threads.
        cpu: Its CPU.
        fewer: Factor on the time of arithmetic where not all threads compute: the rate of all over
            the rate of those that do.
        slower: Factor of contention on the time of arithmetic.
        memory_slower: Factor of contention on the time of reading A and writing C.
        write_slower: The same on the time of writing a C past the caches.
    """
    n, k, flop_seconds = problem.n, problem.k, 1e-9 / rate.gflops
    a_share, c_share = (
        cpu.find_uncached_share(problem.m * columns * problem.item_bytes) for columns in (k, n)
    )
    streamed = is_streamed(problem)
    moving_seconds = max(
        memory_slower * a_share * k * rate.vector_seconds,
        (write_slower if streamed else memory_slower) * _find_written_seconds(problem, rate, cpu),
    )
    if rate.narrow_seconds and max(n, k) <= NARROW:
        return max(n * k * rate.narrow_seconds * fewer * memory_slower, moving_seconds)
    copy_columns = a_share * rate.copy_columns + (1 - a_share) * rate.cached_copy_columns
    column_seconds = n * slower + copy_columns * memory_slower
    uncached_seconds = rate.element_seconds
    if streamed:
        uncached_seconds = min(uncached_seconds, rate.write_seconds)
    element_seconds = (
        c_share * memory_slower * uncached_seconds
        + (1 - c_share) * slower * rate.cached_element_seconds
    )
    row_seconds = fewer * (2 * k * column_seconds * flop_seconds + n * element_seconds)
    return max(row_seconds, moving_seconds)


def _find_written_seconds(problem: GemmProblem, rate: CpuRate, cpu: CpuModel) -> float:
    """Seconds to write what of a row of C goes to memory: all of it, or what caches do not hold."""
    c_bytes = problem.m * problem.n * problem.item_bytes
    share = 1.0 if is_streamed(problem) else cpu.find_uncached_share(c_bytes)
    return share * problem.n * rate.write_seconds


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
    panels = describe_product(
        spec,
        (problem.m, problem.n, problem.k),
        max(1, model.slots * held // gpu.sm_count),
        staged=problem.memory == "pageable" and not is_copied_first(problem),
        b_resident=problem.b_resident,
    )
    rates = build_rates(problem, profile, model)
    resident_bytes = problem.b_bytes - problem.copied_b_bytes
    run_class = classify_gpu_run(problem, panels, rates, spec, shared=False)
    return GpuCurve(
        problem=panels,
        rates=rates,
        memory_bytes=int(MEMORY_SHARE * gpu.memory_bytes) - resident_bytes,
        correction=profile.corrections.find(run_class),
    )


def build_rates(problem: GemmProblem, profile: MachineProfile, model: KernelModel) -> Rates:
    """The rates of a machine's link and one kernel, without a CPU part."""
    gpu, link = profile.gpu, _find_link(problem, profile)
    assert gpu is not None, "only a machine with a GPU runs kernels"
    return Rates(
        in_bytes_per_second=link.in_gbytes_per_second * 1e9,
        out_bytes_per_second=link.out_gbytes_per_second * 1e9,
        duplex=2 * link.together,
        copy_seconds=link.copy_seconds,
        row_seconds=link.row_seconds,
        enqueue_seconds=link.step_seconds,
        call_seconds=link.call_seconds + _find_lost_seconds(problem, link),
        launch_seconds=model.launch_seconds,
        wave_seconds=model.wave_seconds,
        depth_seconds=model.wave_k_seconds,
        memory_bytes_per_second=gpu.memory_gbytes_per_second * 1e9,
    )


def is_copied_first(problem: GemmProblem) -> bool:
    """Whether the product is copied whole into page-locked memory first (`DirectPath`)."""
    return problem.memory == "pageable" and problem.copied_bytes <= SMALL_PRODUCT_BYTES


def is_streamed(problem: GemmProblem) -> bool:
    """Whether the CPU writes C past the caches (`cpu/native/streamed.c`), if it has all rows."""
    m, n, k, item_bytes = problem.m, problem.n, problem.k, problem.item_bytes
    is_short = k * item_bytes <= STREAMED_ROW_BYTES and STREAMED_TIMES * k <= min(m, n)
    return problem.dtype in STREAMED_DTYPES and is_short and m * n * item_bytes > STREAMED_BYTES


def _find_link(problem: GemmProblem, profile: MachineProfile) -> LinkModel:
    """The link of a product; if it is copied first, the copies in host memory are a part of it."""
    link = profile.find_link(problem.memory)
    assert link is not None, "a GPU is at the end of a link"
    if not is_copied_first(problem):
        return link
    direct = profile.find_link("pinned")
    assert direct is not None, "each kind of memory has a link"
    copying = 1 / link.copied_gbytes_per_second
    return replace(
        direct,
        call_seconds=link.call_seconds,
        in_gbytes_per_second=1 / (1 / direct.in_gbytes_per_second + copying),
        out_gbytes_per_second=1 / (1 / direct.out_gbytes_per_second + copying),
    )


def _find_lost_seconds(problem: GemmProblem, link: LinkModel) -> float:
    """Seconds that copies lose until they run at their rates.

    The link's `fill_seconds` if the copies of A and B, or those of C, take longer than that, else a
    part of it that grows with the square root of their bytes, as seen on an H200 from 0.3 to 1000
    MB.
    """
    in_bytes = problem.copied_b_bytes + problem.m * problem.a_row_bytes
    moving_seconds = 1e-9 * max(
        in_bytes / link.in_gbytes_per_second,
        problem.m * problem.c_row_bytes / link.out_gbytes_per_second,
    )
    return sqrt(link.fill_seconds * min(link.fill_seconds, moving_seconds))
