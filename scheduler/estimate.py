"""Figures for what was not measured, each by a stated rule, so that a plan can always be made."""

from typing import Final

from kernels.catalog import KernelSpec, list_kernels
from scheduler.machine import CpuModel, CpuRate, GpuModel, KernelModel, LinkModel
from scheduler.problem import ITEM_BYTES

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
    ("cublas", "float32"): 0.77,
    ("cublas", "float64"): 0.90,
    ("cublas", "float16"): 0.73,
}
"""Share of the data sheet's peak that a kernel reaches, as measured on an H200. In float32 the
tensor kernel passes the peak of float32 arithmetic: it multiplies in bfloat16."""

TILE_SHARE: Final = {("bulk", "float32", "128x128x16"): 0.75}
"""Where a tile reaches another share than the kernel's first one."""

LAUNCH_SECONDS: Final = 5e-6
LINK_SHARE: Final = 0.6
CALL_SECONDS: Final = 300e-6
CPU_THREAD_GFLOPS: Final = 60.0
"""float32 on one thread: 16 lanes, 2 operations, 2.5 GHz, three quarters of it kept up."""

BESIDE_STRETCH: Final = 1.5
"""How many times as long staged copies take beside the CPU part: 1.4 to 1.7 on an H200 with 16
cores, 4096³ and 8192³ from pageable memory."""

_FEEDING_THREADS: Final = 7
"""Four that copy, one for each direction and one that launches."""
_THREADS_AN_SM: Final = 1024
_BLOCKS_AN_SM: Final = 16


def estimate_kernels(gpu: GpuModel) -> tuple[KernelModel, ...]:
    """Staircases of every kernel that a GPU can run, from its data sheet."""
    return tuple(
        estimate_kernel(gpu, spec)
        for spec in list_kernels(compute_capability=gpu.compute_capability)
    )


def estimate_kernel(gpu: GpuModel, spec: KernelSpec) -> KernelModel:
    """The staircase of one kernel: a wave's operations over the kernel's share of the peak.

    A block of a small tile does not fill a multiprocessor, so as many are taken to run there as
    its threads allow; from 1024 threads, or with register tiles, one block fills it.
    """
    blocks = min(_BLOCKS_AN_SM, max(1, _THREADS_AN_SM // spec.threads))
    slots = gpu.sm_count * (1 if spec.tiling or spec.source is None else blocks)
    tile = str(spec.tile)
    peak_share = PEAK_SHARE[spec.name, spec.dtype]
    share = TILE_SHARE.get((spec.name, spec.dtype, tile), peak_share)
    flops_a_second = share * _find_peak_gflops(gpu, spec) * 1e9
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


def _find_peak_gflops(gpu: GpuModel, spec: KernelSpec) -> float:
    if spec.dtype == "float16":
        return gpu.float16_tensor_gflops
    if spec.dtype == "float64":
        on_tensor_cores = spec.name in ("tensor", "cublas")
        return gpu.float64_tensor_gflops if on_tensor_cores else gpu.float64_gflops
    return gpu.float32_gflops


def estimate_link(gpu: GpuModel) -> LinkModel:
    """The link at the share of its standard's rate that staged copies keep up."""
    rate = LINK_SHARE * gpu.link_gbytes_per_second
    return LinkModel(
        in_gbytes_per_second=rate,
        out_gbytes_per_second=rate,
        call_seconds=CALL_SECONDS,
        source=f"assumed: {LINK_SHARE:.0%} of {gpu.link_gbytes_per_second:g} GB/s (PCIe standard)",
        beside_cpu_stretch=BESIDE_STRETCH,
    )


def count_threads_beside_gpu(threads: int) -> int:
    """Threads left to the CPU part while others stage the GPU's operands.

    Each has a core: a thread that waits for one holds all others up.
    """
    return max(1, threads - min(_FEEDING_THREADS, threads // 2))


def estimate_cpu(threads: int) -> CpuModel:
    """A CPU of which only the number of usable threads is known."""
    rates = tuple(
        CpuRate(
            dtype=dtype,
            gflops=threads * CPU_THREAD_GFLOPS * _compare_with_float32(dtype),
            startup_rows=32.0,
            call_seconds=50e-6,
            row_quantum=1,
            source=f"assumed: {CPU_THREAD_GFLOPS:g} GFLOP/s of float32 a thread, {threads} threads",
        )
        for dtype in ITEM_BYTES
    )
    return CpuModel(threads, count_threads_beside_gpu(threads), rates)


def _compare_with_float32(dtype: str) -> float:
    """Rate of an element type on the CPU path as a multiple of float32's.

    Small integers and float16 are multiplied as floats after a conversion; the larger integers
    have no BLAS.
    """
    if dtype in ("float32", "float16"):
        return 1.0
    return 0.5 if dtype in ("float64", "int8", "int16", "uint8", "uint16") else 0.02
