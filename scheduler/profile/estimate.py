"""The assumed machine: figures for what was not measured, each by a stated rule.

With them a plan can always be made. A calibration replaces them, and runs correct them, so they are
no tuned numbers (`native/tuned.py`).
"""

from typing import Final

from wavetrim.kernels.catalog import list_kernels
from wavetrim.kernels.spec import KernelSpec
from wavetrim.native.tuned import STAGING_THREADS
from wavetrim.scheduler.model.cpu import CpuModel, CpuRate, CpuShare
from wavetrim.scheduler.problem import ITEM_BYTES, MEMORIES, Memory
from wavetrim.scheduler.profile.machine import GpuModel, KernelModel, LinkModel

PEAK_SHARE: Final[dict[tuple[str, str], float]] = {
    ("naive", "float32"): 0.01,
    ("naive", "float64"): 0.01,
    ("simple", "float32"): 0.07,
    ("simple", "float64"): 0.07,
    ("coalesced", "float32"): 0.07,
    ("coalesced", "float64"): 0.07,
    ("shared", "float32"): 0.12,
    ("shared", "float64"): 0.12,
    ("register", "float32"): 0.70,
    ("register", "float64"): 0.70,
    ("bulk", "float32"): 0.80,
    ("tensor", "float32"): 1.70,
    ("tensor", "float64"): 0.85,
    ("tensor", "float16"): 0.72,
    ("tensor", "bfloat16"): 0.72,
    ("cublas", "float32"): 0.77,
    ("cublas", "float64"): 0.90,
    ("cublas", "float16"): 0.73,
    ("cublas", "bfloat16"): 0.73,
    ("cublas", "complex64"): 0.77 / 4,
    ("cublas", "complex128"): 0.90 / 4,
}
"""Share of the data sheet's peak that each kernel reached on an H200. The float32 tensor kernel
exceeds the peak of float32 arithmetic because it multiplies in bfloat16. An operation on complex
numbers is four on real ones; its share is assumed to be that of their type, and bfloat16's to be
that of float16."""

TILE_SHARE: Final = {
    ("bulk", "float32", "128x128x16"): 0.75,
    ("tensor", "float16", "128x128x64"): 0.60,
    ("tensor", "bfloat16", "128x128x64"): 0.60,
    ("tensor", "float64", "64x64x32"): 0.75,
    ("register", "float64", "64x64x8"): 0.65,
}
"""Share of tiles that differ from their kernel's first tile, on an H200."""

LAUNCH_SECONDS: Final = 5e-6
"""Latency of a kernel launch."""

LINK_SHARE: Final[dict[Memory, float]] = {"pageable": 0.75, "pinned": 0.85}
"""Rate of copies as a share of the link standard's, seen on an H200 with 16 cores."""

CALL_SECONDS: Final[dict[Memory, float]] = {"pageable": 100e-6, "pinned": 35e-6}
STEP_SECONDS: Final[dict[Memory, float]] = {"pageable": 15e-6, "pinned": 10e-6}
COPY_SECONDS: Final[dict[Memory, float]] = {"pageable": 40e-6, "pinned": 8e-6}
"""Fixed cost of a call, time of the calling thread for a step, and latency of a copy. The first two
are about what calibrations of an H100 or H200 with 16 cores find: 50 to 120 and 13 to 20 µs from
pageable memory, 13 and 13 from page-locked, in a loop, and some 20 more for a call after other work
(d9b6696f). The third is chosen."""

ROW_SECONDS: Final[dict[Memory, float]] = {"pageable": 0.0, "pinned": 30e-9}
"""Time that each row adds to a copy of parts of rows: on an H100 7 to 47 ns for parts of 2 to 32
KiB, from page-locked memory (1f09f97). Staged parts are gathered by the CPU."""

STARTUP_ROWS: Final = 32.0
CPU_CALL_SECONDS: Final = 50e-6
"""Additional cost of the first row, in rows, and time to wake the pool's threads and to join them;
chosen."""

CPU_THREAD_GFLOPS: Final = 60.0
"""Rate of float32 on one thread: three quarters of 16 lanes x 2 operations x 2.5 GHz."""

PINNED_STRETCH: Final = 1.02
"""Factor on the time of page-locked copies in a split: they need no core and share only memory;
chosen."""

START_SECONDS: Final = 5e-4
"""Time that the GPU part loses while threads of the CPU part wake up; chosen."""

LATE_SECONDS: Final[dict[Memory, float]] = {"pageable": 8e-4, "pinned": 2e-4}
"""Time by which the CPU part ends later than by its own clock: it waits for the first staged
copies, or until all steps are enqueued; chosen."""

MEMORY_STRETCH: Final[dict[Memory, float]] = {"pageable": 1.6, "pinned": 1.4}
"""Factor on the time of a CPU part that memory bounds, while copies are under way: on H100s and
H200s with 16 cores 1.2 to 2.4 and 1.1 to 2 (1f09f97 to be49c68)."""

WRITE_STRETCH: Final[dict[Memory, float]] = {"pageable": 1.4, "pinned": 1.1}
WRITE_LINK_STRETCH: Final[dict[Memory, float]] = {"pageable": 2.0, "pinned": 1.4}
"""The same for a CPU part that only writes C, and the factor on the copies beside it: on hosts of
an H100 (16 cores) and of four H200s (64) 1.2 to 1.5 and 0.9 to 1.7, 2.0 to 2.9 and 1.3 to 1.7
(999357a2, 69627844). Page-locked memory may be written faster than the pageable memory with which
the CPU's rate is measured."""

COPIER_GBYTES_PER_SECOND: Final = 8.0
"""Rate of one thread that reads memory, or copies to or from page-locked slabs; chosen."""

FILL_SECONDS: Final[dict[Memory, float]] = {"pageable": 1e-4, "pinned": 0.0}
"""Most seconds that copies lose until they run at their rates: staging threads have to wake up. On
such hosts 0.11 to 0.14 ms."""

COPIED_GBYTES_PER_SECOND: Final = 20.0
"""Rate of copies of small products within host memory: 20 on an H200's host (6950349)."""

STAGED_STRETCH: Final = 1.4
"""Least factor on the time of staged copies in a split, for any number of copy threads; chosen."""

CPU_WRITE_GBYTES_PER_SECOND: Final = 4.0
CPU_READ_GBYTES_PER_SECOND: Final = 5.5
"""Rates of one of all threads that write C if K is short, and that read B for a single row."""

CACHE_GBYTES_PER_SECOND: Final = 32.0
"""Rate at which one thread alone reads B within the caches."""

ALONE_SECONDS: Final = 7e-6
ALONE_SHARE: Final = 2.0
"""Time of a call that one thread computes alone, and its rate over that of one of all threads."""

COPY_COLUMNS: Final = 18.0
"""Cost for BLAS to pack a row of A, in columns of arithmetic. This, `CPU_WRITE_…`, `CPU_READ_…`,
`CACHE_…` and `ALONE_…` are about the means of calibrations on five hosts of an H100 or H200 with 16
cores, 1f09f97 to be49c68."""

TOGETHER: Final[dict[Memory, float]] = {"pageable": 0.7, "pinned": 0.59}
"""Time of copies both ways at once over that of one after the other, as on an H200: staged copies
share threads; page-locked ones reach 93 GB/s both ways and 55 one way."""

_THREADS_AN_SM: Final = 1024
_BLOCKS_AN_SM: Final = 16
"""Threads and blocks that are assumed to fill a multiprocessor."""


def estimate_kernels(gpu: GpuModel) -> tuple[KernelModel, ...]:
    """Times of all kernels that a GPU can run, from its data sheet."""
    return tuple(
        estimate_kernel(gpu, spec)
        for spec in list_kernels(compute_capability=gpu.compute_capability)
    )


def estimate_kernel(gpu: GpuModel, spec: KernelSpec) -> KernelModel:
    """Times of one kernel: a wave's operations over the kernel's share of the peak.

    A block of 1024 threads, or one with register tiles, fills a multiprocessor. Smaller ones share
    it, up to 1024 threads.
    """
    blocks = min(_BLOCKS_AN_SM, max(1, _THREADS_AN_SM // spec.threads))
    slots = gpu.sm_count * (1 if spec.tiling or spec.source is None else blocks)
    tile = str(spec.tile)
    peak_share = PEAK_SHARE[spec.name, spec.dtype]
    share = TILE_SHARE.get((spec.name, spec.dtype, tile), peak_share)
    flops_a_second = share * find_peak_gflops(gpu, spec) * 1e9
    return KernelModel(
        kernel=spec.name,
        dtype=spec.dtype,
        tile=tile,
        slots=slots,
        launch_seconds=LAUNCH_SECONDS,
        wave_seconds=0.0,
        wave_k_seconds=2 * spec.tile.m * spec.tile.n * slots / flops_a_second,
        source=f"assumed: {share:.0%} of the peak of {gpu.name}",
        assumed=True,
    )


def find_peak_gflops(gpu: GpuModel, spec: KernelSpec) -> float:
    """The data sheet's peak for a kernel's element type, 1e9 operations a second."""
    if spec.dtype in ("float16", "bfloat16"):
        return gpu.float16_tensor_gflops
    if spec.dtype in ("float64", "complex128"):
        on_tensor_cores = spec.name in ("tensor", "cublas")
        return gpu.float64_tensor_gflops if on_tensor_cores else gpu.float64_gflops
    return gpu.float32_gflops


def estimate_links(gpu: GpuModel) -> tuple[LinkModel, ...]:
    """The links for each kind of memory, from the rate of the GPU's link standard."""
    standard = gpu.link_gbytes_per_second
    return tuple(
        LinkModel(
            memory=memory,
            in_gbytes_per_second=LINK_SHARE[memory] * standard,
            out_gbytes_per_second=LINK_SHARE[memory] * standard,
            call_seconds=CALL_SECONDS[memory],
            source=f"assumed: {LINK_SHARE[memory]:.0%} of {standard:g} GB/s (PCIe standard)",
            step_seconds=STEP_SECONDS[memory],
            copy_seconds=COPY_SECONDS[memory],
            row_seconds=ROW_SECONDS[memory],
            together=TOGETHER[memory],
            fill_seconds=FILL_SECONDS[memory],
            copied_gbytes_per_second=COPIED_GBYTES_PER_SECOND,
        )
        for memory in MEMORIES
    )


def estimate_cpu(threads: int, gpu: GpuModel | None = None) -> CpuModel:
    """A CPU with this number of usable threads, and the GPU that it feeds."""
    rates = tuple(
        CpuRate(
            dtype=dtype,
            read_seconds=item_bytes / (CACHE_GBYTES_PER_SECOND * 1e9),
            gflops=threads * CPU_THREAD_GFLOPS * _compare_with_float32(dtype),
            startup_rows=STARTUP_ROWS,
            call_seconds=CPU_CALL_SECONDS,
            row_quantum=1,
            source=f"assumed: {CPU_THREAD_GFLOPS:g} GFLOP/s of float32 a thread, {threads} threads",
            element_seconds=item_bytes / (threads * CPU_WRITE_GBYTES_PER_SECOND * 1e9),
            write_seconds=item_bytes / (threads * CPU_WRITE_GBYTES_PER_SECOND * 1e9),
            vector_seconds=item_bytes / (threads * CPU_READ_GBYTES_PER_SECOND * 1e9),
            copy_columns=COPY_COLUMNS,
            cached_copy_columns=COPY_COLUMNS,
            alone_seconds=ALONE_SECONDS,
            alone_gflops=ALONE_SHARE * CPU_THREAD_GFLOPS * _compare_with_float32(dtype),
        )
        for dtype, item_bytes in ITEM_BYTES.items()
    )
    link_rate = LINK_SHARE["pageable"] * gpu.link_gbytes_per_second if gpu else 0.0
    return CpuModel(threads, rates, share_cpu(threads, link_rate))


def share_cpu(threads: int, link_gbytes_per_second: float = 0.0) -> tuple[CpuShare, ...]:
    """How the CPU is shared in a split, for each kind of memory.

    One core is left for the launching thread. Where copies are staged, an eighth of the cores is
    left for it and for their threads, which preempt computing threads when they need more. Fewer
    computing threads (11 to 13) or fewer copy threads (2 to 6) were slower at nearly all of eight
    products, with the GPU held to 4 or 8 multiprocessors (H200, 16 cores).

    Args:
        threads: Usable cores.
        link_gbytes_per_second: Rate of the link in one direction; 0 without a GPU.
    """
    left = max(1, threads - max(1, threads // 8))
    copiers = min(STAGING_THREADS, threads)
    slowed = link_gbytes_per_second / (copiers * COPIER_GBYTES_PER_SECOND)
    staged = CpuShare(
        memory="pageable",
        threads=left,
        copiers=copiers,
        link_stretch=max(STAGED_STRETCH, slowed),
        start_seconds=START_SECONDS,
        memory_stretch=MEMORY_STRETCH["pageable"],
        write_stretch=WRITE_STRETCH["pageable"],
        write_link_stretch=WRITE_LINK_STRETCH["pageable"],
        late_seconds=LATE_SECONDS["pageable"],
    )
    pinned = CpuShare(
        memory="pinned",
        threads=max(1, threads - 1),
        copiers=1,
        link_stretch=PINNED_STRETCH,
        start_seconds=START_SECONDS,
        memory_stretch=MEMORY_STRETCH["pinned"],
        write_stretch=WRITE_STRETCH["pinned"],
        write_link_stretch=WRITE_LINK_STRETCH["pinned"],
        late_seconds=LATE_SECONDS["pinned"],
    )
    return staged, pinned


def _compare_with_float32(dtype: str) -> float:
    """Rate of an element type on the CPU, as a multiple of float32's.

    Halves and integers of 8 and 16 bits are converted to floats. Larger integers have no BLAS. An
    operation on complex numbers is four on real ones.
    """
    if dtype in ("float32", "float16", "bfloat16"):
        return 1.0
    if dtype in ("complex64", "complex128"):
        return 0.25 if dtype == "complex64" else 0.125
    return 0.5 if dtype in ("float64", "int8", "int16", "uint8", "uint16") else 0.02
