"""Estimates for a machine that was not measured, from data sheets: each figure by a rule.

So a plan can always be made. A calibration replaces them.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from wavetrim.kernels.spec import KernelSpec
from wavetrim.scheduler.problem import MEMORIES, Memory
from wavetrim.scheduler.profile.machine import (
    CpuModel,
    GpuModel,
    JointLinks,
    KernelRate,
    LinkModel,
)

PEAK_SHARE: Final[dict[tuple[str, ...], float]] = {
    ("naive",): 0.01,
    ("simple",): 0.07,
    ("coalesced",): 0.07,
    ("shared",): 0.12,
    ("register",): 0.70,
    ("register", "float64", "64x64x8"): 0.65,
    ("bulk",): 0.80,
    ("bulk", "float32", "128x128x16"): 0.75,
    ("tensor", "float32"): 1.70,  # multiplies in bfloat16
    ("tensor", "float64"): 0.85,
    ("tensor", "float64", "64x64x32"): 0.75,
    ("tensor", "float16"): 0.72,
    ("tensor", "float16", "128x128x64"): 0.60,
    ("cublas", "float32"): 0.77,
    ("cublas", "float64"): 0.90,
    ("cublas", "float16"): 0.73,
    ("cublas", "complex64"): 0.77 / 4,  # an operation on complex numbers is four on real ones
    ("cublas", "complex128"): 0.90 / 4,
}
"""Share of the data sheet's peak that a kernel reaches, by name, element type and tile: that of an
H200, where it was measured. That of bfloat16 is float16's."""

# Links: on H100s and H200s with 16 cores, by PCIe 5.

LINK_SHARE: Final[dict[Memory, float]] = {"pageable": 0.75, "pinned": 0.85}
"""Rate of copies as a share of the link standard's."""

DUPLEX: Final[dict[Memory, float]] = {"pageable": 2 * 0.70, "pinned": 2 * 0.59}
"""Factor on copies while the other direction is busy: page-locked ones reach 93 GB/s both ways and
55 one way, staged ones share threads."""

CALL_SECONDS: Final[dict[Memory, float]] = {"pageable": 600e-6, "pinned": 50e-6}
"""Seconds of a product before its first step, after other work: staging threads have to wake up,
and their first pieces overlap nothing. In turns with others, products with 3 to 84 MB take 0.3 to
0.6 ms besides their bytes at the link's rate (H200, 16 cores; c3a44111), ten with 13 to 400 MB 0.5
to 1.0 (H200)."""

# Several GPUs of a host: two H100s, and three and four H200s on one socket.

JOINT_SHARE: Final = 0.96
JOINT_DUPLEX_SHARE: Final = 0.73
"""Joint rate of page-locked copies as a share of the sum of the links' rates, one way and both:
106 of 110 GB/s and 135 of 186 on two H100s."""

SOCKET_GPUS: Final = 4
SOCKET_OUT_GBYTES_PER_SECOND: Final = 150.0
SOCKET_BOTH_GBYTES_PER_SECOND: Final = 180.0
"""GPUs of one socket, and what its memory takes of copies out and both ways, 1e9 bytes a second."""

# The CPU: five hosts of an H100 or H200 with 16 cores.

THREAD_GFLOPS: Final = 60.0
"""float32 of one of all threads, 1e9 operations a second: three quarters of 16 lanes x 2 operations
x 2.5 GHz. In float64 it is half."""

ALONE_SHARE: Final = 2.0
"""Rate of one thread alone over that of one of all threads."""

READ_GBYTES_PER_SECOND: Final = 5.5
WRITE_GBYTES_PER_SECOND: Final = 4.0
"""Memory that one of all threads reads and writes, 1e9 bytes a second."""

COPY_GBYTES_PER_SECOND: Final = 8.0
"""The driver's copies between pageable memory and its own, 1e9 bytes a second: with the link's they
reach 5 to 8 in the products of CuPy and PyTorch (results/busy-*.json)."""

START_SECONDS: Final = 0.2e-3
"""Seconds to wake all threads, and to join them. Chosen: 16 threads take 0.1 to 0.2 ms more than
300³ to 500³ should in a loop, and 0.2 to 0.3 ms 5 ms after the last one (H200's host; 3d53540b)."""


@lru_cache(maxsize=256)
def estimate_rate(gpu: GpuModel, spec: KernelSpec) -> KernelRate:
    """The rate of a kernel: its share of the peak."""
    named = spec.name, spec.dtype.replace("bfloat16", "float16"), str(spec.tile)
    share = next(PEAK_SHARE[named[:end]] for end in (3, 2, 1) if named[:end] in PEAK_SHARE)
    return KernelRate(
        kernel=spec.name,
        dtype=spec.dtype,
        tile=str(spec.tile),
        gflops=share * find_peak_gflops(gpu, spec),
        source=f"assumed: {share:.0%} of the peak of {gpu.name}",
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
    """The link of each kind of memory, from the rate of the GPU's link standard."""
    standard = gpu.link_gbytes_per_second
    return tuple(
        LinkModel(
            memory=memory,
            in_gbytes_per_second=LINK_SHARE[memory] * standard,
            out_gbytes_per_second=LINK_SHARE[memory] * standard,
            duplex=DUPLEX[memory],
            call_seconds=CALL_SECONDS[memory],
            source=f"assumed: {LINK_SHARE[memory]:.0%} of {standard:g} GB/s (PCIe standard)",
        )
        for memory in MEMORIES
    )


def estimate_joint(links: Sequence[LinkModel]) -> JointLinks:
    """What the links of several GPUs reach together, from page-locked memory."""
    sockets = math.ceil(len(links) / SOCKET_GPUS)
    into = JOINT_SHARE * sum(link.in_gbytes_per_second for link in links)
    out = JOINT_SHARE * sum(link.out_gbytes_per_second for link in links)
    both = JOINT_DUPLEX_SHARE * sum(
        (link.in_gbytes_per_second + link.out_gbytes_per_second) / link.duplex for link in links
    )
    return JointLinks(
        in_gbytes_per_second=into,
        out_gbytes_per_second=min(out, sockets * SOCKET_OUT_GBYTES_PER_SECOND),
        both_gbytes_per_second=min(both, sockets * SOCKET_BOTH_GBYTES_PER_SECOND),
        peer_gbytes_per_second=0.0,
        source=f"assumed: {JOINT_SHARE:.0%} of the sum one way, {JOINT_DUPLEX_SHARE:.0%} both "
        f"ways, at most {SOCKET_OUT_GBYTES_PER_SECOND:g} GB/s out and "
        f"{SOCKET_BOTH_GBYTES_PER_SECOND:g} both ways for each {SOCKET_GPUS} GPUs",
    )


def estimate_cpu(threads: int) -> CpuModel:
    """A CPU with this number of usable threads."""
    return CpuModel(
        threads=threads,
        float32_gflops=threads * THREAD_GFLOPS,
        float64_gflops=threads * THREAD_GFLOPS / 2,
        thread_gflops=ALONE_SHARE * THREAD_GFLOPS,
        read_gbytes_per_second=threads * READ_GBYTES_PER_SECOND,
        write_gbytes_per_second=threads * WRITE_GBYTES_PER_SECOND,
        copy_gbytes_per_second=COPY_GBYTES_PER_SECOND,
        start_seconds=START_SECONDS,
        source=f"assumed: {THREAD_GFLOPS:g} GFLOP/s of float32 a thread; threads: {threads}",
    )
