"""The seconds of the CPU's rows: its start, its arithmetic, its bytes; and beside a GPU."""

from dataclasses import replace

import pytest

from wavetrim.scheduler.planning.cpu_rows import CALL_SECONDS, CONTENTION, find_cpu_seconds
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.machine import CpuModel

CPU = CpuModel(
    threads=16, float32_gflops=1000.0, float64_gflops=500.0, thread_gflops=100.0,
    read_gbytes_per_second=100.0, write_gbytes_per_second=50.0, copy_gbytes_per_second=20.0,
    start_seconds=1e-4, source="a test",
)  # fmt: skip
START_SECONDS = CALL_SECONDS + 1e-4
SQUARE = GemmProblem(8192, 8192, 8192)
FLOP_SECONDS = 2 * 4096 * 8192**2 / 1e12
"""Of half of its rows."""


def test_an_example_by_hand():
    """Half of the rows; a sixteenth of C stays in the caches, the rest is read first."""
    read_seconds = (8192 + 4096 + 4096 / 16) * 8192 * 4 / 100e9
    write_seconds = 2 * 4096 * 15 / 16 * 8192 * 4 / 50e9
    seconds = START_SECONDS + FLOP_SECONDS + read_seconds + write_seconds
    assert find_cpu_seconds(SQUARE, CPU, 4096) == pytest.approx(seconds)
    assert find_cpu_seconds(SQUARE, CPU, 0) == 0.0


@pytest.mark.parametrize(("memory", "threads"), [("pinned", 15), ("pageable", 14)])
def test_beside_a_gpu_memory_is_slower_and_the_cpu_begins_late(memory, threads):
    """Arithmetic is slower by the threads that copy."""
    problem, contention = replace(SQUARE, memory=memory), CONTENTION[memory]
    byte_seconds = find_cpu_seconds(problem, CPU, 4096) - START_SECONDS - FLOP_SECONDS
    seconds = CALL_SECONDS + 1e-4 * threads / 16 + FLOP_SECONDS * 16 / threads
    seconds += contention.start_seconds + contention.memory * byte_seconds
    found = find_cpu_seconds(problem, CPU, 4096, beside_gpu=True)
    assert found == pytest.approx(seconds)
    assert find_cpu_seconds(problem, CPU, 0, beside_gpu=True) == 0.0
