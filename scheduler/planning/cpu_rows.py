"""The time of the CPU's rows: its start, its arithmetic, and the bytes that it moves.

The rates are those of the threads at work: all of them, fewer if the product is too small to share
(`wavetrim.cpu.blocks`), and in a split those that do not copy for the GPU. In a split reading and
writing take longer (contention), and the CPU part begins late.
"""

from typing import Final, NamedTuple

from wavetrim.cpu.blocks import count_shares
from wavetrim.scheduler.problem import GemmProblem, Memory
from wavetrim.scheduler.profile.machine import CpuModel

CALL_SECONDS: Final = 8e-6
"""Time of a product that the calling thread computes alone, without its rows; chosen."""

THREAD_CACHE_BYTES: Final = 1 << 20
"""Bytes of C of each thread that a cache holds for whoever reads C next; chosen."""

THREAD_BYTES: Final = 2.0
"""Bytes that one thread alone moves in a second, as a multiple of its share when all move bytes.
Chosen: about this on an H200's host, where threads share memory bandwidth."""


class Contention(NamedTuple):
    """What GPU part and CPU part of a split take from each other.

    Attributes:
        start_seconds: Time that both lose at the start, while threads wake up.
        copies: Factor on the time of the GPU's copies.
        memory: Factor on the time of the CPU's rows for memory.
    """

    start_seconds: float
    copies: float
    memory: float


CONTENTION: Final[dict[Memory, Contention]] = {
    "pageable": Contention(start_seconds=1.25e-3, copies=1.6, memory=1.6),
    "pinned": Contention(start_seconds=0.3e-3, copies=1.0, memory=2.6),
}
"""Chosen, by sweeps of F on an H100 and two H200s with 16 cores (results/host-*-sweeps.json). A GPU
copies page-locked memory as fast as without a CPU part, which pays for it. They are not calibrated:
three calibrations in a row gave 1.0 to 2.2 for the last factor, and worse plans."""

LATE_SHARE: Final = 0.25
MOST_LATE_SECONDS: Final = 1e-3
"""F is chosen as if the CPU's part took this share longer than predicted, but at most so much
longer. A late end costs all that a split gains, an early one nearly nothing. Chosen: after NumPy,
whose threads still spin, CPU parts of 5 to 10 ms took 1.2 to 1.6 times what was predicted (H200;
results/host-h200-pinned-sweeps.json)."""


def find_cpu_seconds(
    problem: GemmProblem, cpu: CpuModel, rows: int, *, beside_gpu: bool = False
) -> float:
    """Seconds of the CPU for some rows; 0 for none.

    Args:
        problem: The product.
        cpu: The CPU.
        rows: Rows of C.
        beside_gpu: Whether a GPU computes other rows at the same time.
    """
    if rows == 0:
        return 0.0
    n, k = problem.n, problem.k
    flop_seconds, byte_seconds = _find_full_rate_seconds(problem, cpu, rows)
    left = count_split_threads(cpu.threads, problem.memory) if beside_gpu else cpu.threads
    taking = count_shares(rows, n, k, left)
    part = left / cpu.threads
    flop_seconds /= min(part, taking * cpu.thread_gflops / cpu.float32_gflops)
    byte_seconds /= min(1.0, taking * THREAD_BYTES / cpu.threads)
    start_seconds = CALL_SECONDS
    if taking > 1:  # waking fewer threads takes less time
        start_seconds += cpu.start_seconds * taking / cpu.threads
    if not beside_gpu:
        return start_seconds + flop_seconds + byte_seconds
    contention = CONTENTION[problem.memory]
    return (
        contention.start_seconds + start_seconds + flop_seconds + contention.memory * byte_seconds
    )


def delay_end(cpu_seconds: float) -> float:
    """The seconds after which the CPU's part of a split may end."""
    return cpu_seconds + min(LATE_SHARE * cpu_seconds, MOST_LATE_SECONDS)


def name_cpu_bottleneck(problem: GemmProblem, cpu: CpuModel) -> str:
    """What bounds the CPU's rows: the call, arithmetic in an element type, or memory."""
    flop_seconds, byte_seconds = _find_full_rate_seconds(problem, cpu, problem.m)
    bounds = {
        "the call": cpu.start_seconds,
        f"arithmetic in {problem.dtype}": flop_seconds,
        "memory": byte_seconds,
    }
    return max(bounds, key=lambda name: bounds[name])


def count_split_threads(threads: int, memory: Memory) -> int:
    """Threads of the CPU part of a split.

    One core is left for the launching thread. Where copies are staged, an eighth of the cores is
    left for it and for their threads, which preempt computing threads when they need more. Fewer
    computing threads (11 to 13) or fewer copy threads (2 to 6) were slower at nearly all of eight
    products, with the GPU limited to 4 or 8 multiprocessors (H200, 16 cores).
    """
    return max(1, threads - (max(1, threads // 8) if memory == "pageable" else 1))


def _find_full_rate_seconds(problem: GemmProblem, cpu: CpuModel, rows: int) -> tuple[float, float]:
    """Seconds of the arithmetic of some rows, and of their bytes, at the rates of all threads."""
    n, k, item_bytes = problem.n, problem.k, problem.item_bytes
    flops = 2 * rows * n * k
    c_bytes = rows * n * item_bytes
    # What the caches do not hold of all of C is written to memory.
    whole_bytes = problem.m * n * item_bytes
    written_bytes = c_bytes * max(0.0, 1 - cpu.threads * THREAD_CACHE_BYTES / whole_bytes)
    read_bytes = (n + rows) * k * item_bytes + c_bytes - written_bytes
    byte_seconds = read_bytes / cpu.read_gbytes_per_second
    byte_seconds += written_bytes / cpu.write_gbytes_per_second
    return 1e-9 * flops / cpu.find_gflops(problem.dtype), 1e-9 * byte_seconds
