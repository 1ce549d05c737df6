"""Clock cycles of a warp's reads from shared and constant memory, and the cost of few registers."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from wavetrim.kernels.compile import compile_kernel
from wavetrim.kernels.device import find_device
from wavetrim.kernels.gemm.launch import count_sms
from wavetrim.kernels.timing.readings import CycleReading, RegisterReading
from wavetrim.lab.gpu.catalog import BANKS, REGISTER_THREADS, REGISTER_VALUES, REGISTERS, TABLES
from wavetrim.lab.gpu.stopwatch import Stopwatch

TABLE_WORDS: Final = 256
"""Words of the table in tables.cu."""

_LOADS: Final = 4 * TABLE_WORDS
_WARPS: Final = 8
_LANES: Final = 32
_REGISTER_ROUNDS: Final = 1024
_REGISTER_BLOCKS_AN_SM: Final = 8


def measure_banks(
    watch: Stopwatch, cases: Sequence[tuple[int, int]], launches: int
) -> tuple[CycleReading, ...]:
    """Time reads of shared memory in which lane l reads the word l // group · stride.

    Args:
        watch: Times launches on the GPU.
        cases: Pairs of a stride, 0…33, and a group, a divisor of 32.
        launches: Launches of each case.

    Returns:
        Readings "stride" for group 1 and "multicast" for larger groups; their step is the stride,
        or the number of different words.
    """
    readings = []
    with watch.use_device():
        (read,) = watch.load(BANKS)
        for stride, group in cases:
            numbers = np.int32(_LOADS), np.int32(stride), np.int32(group)
            cycles, sums = _run_reads(read, numbers, launches)
            wanted = np.arange(_LANES) // group * stride
            right = bool((sums == np.tile(_LOADS * wanted, _WARPS)).all())
            way, step = ("stride", stride) if group == 1 else ("multicast", _LANES // group)
            readings.append(CycleReading(way, step, cycles, right))
    return tuple(readings)


def measure_tables(
    watch: Stopwatch, distinct: Sequence[int], launches: int
) -> tuple[CycleReading, ...]:
    """Time reads of a table of 256 words in which a warp reads several different words at once.

    Returns:
        One reading "constant" and one "read-only" for each number in `distinct`.
    """
    import cupy

    readings = []
    with watch.use_device():
        table = cupy.asarray(np.arange(TABLE_WORDS, dtype=np.float32))
        functions = zip(("constant", "read-only"), watch.load(TABLES), strict=True)
        # Each lane reads the whole table the same number of times.
        total = _LOADS // TABLE_WORDS * (TABLE_WORDS * (TABLE_WORDS - 1) // 2)
        for way, read in functions:
            for words in distinct:
                numbers = np.uint64(table.data.ptr), np.int32(_LOADS), np.int32(words)
                cycles, sums = _run_reads(read, numbers, launches)
                readings.append(CycleReading(way, words, cycles, bool((sums == total).all())))
    return tuple(readings)


def measure_registers(
    watch: Stopwatch, cache_dir: Path, launches: int
) -> tuple[RegisterReading, ...]:
    """Time one kernel compiled for different numbers of blocks a multiprocessor."""
    import cupy

    arch = find_device(watch.device_index).arch
    readings = []
    with watch.use_device():
        blocks = _REGISTER_BLOCKS_AN_SM * count_sms()
        threads = blocks * REGISTER_THREADS
        drawn = np.random.default_rng(0).random(REGISTER_VALUES * threads, np.float32)
        values = cupy.asarray(drawn)
        expected: Any = None
        for blocks_per_sm, spec in REGISTERS.items():
            (turn,) = watch.load(spec)
            out = cupy.full(threads, np.nan, np.float32)
            ends = np.uint64(out.data.ptr), np.uint64(values.data.ptr)
            arguments = (*ends, np.float32(0.5), np.int32(_REGISTER_ROUNDS))
            seconds = watch.time_launches(
                partial(turn, (blocks,), (REGISTER_THREADS,), arguments), launches
            )
            found = cupy.asnumpy(out)
            expected = found if expected is None else expected
            right = bool((found == expected).all())  # false for NaN, too
            compiled = compile_kernel(spec, arch, cache_dir)
            used = compiled.registers, compiled.spill_bytes
            readings.append(RegisterReading(blocks_per_sm, *used, seconds, right))
    return tuple(readings)


def _run_reads(read: Any, numbers: tuple[Any, ...], launches: int) -> tuple[float, Any]:
    """Median cycles for one read of one warp, and the sums of block 0's threads."""
    import cupy

    blocks, threads = count_sms(), _LANES * _WARPS
    cycles = cupy.zeros((launches + 1, blocks), np.int64)
    sums = cupy.full(threads, np.nan, np.float32)
    for row in cycles:
        arguments = (np.uint64(row.data.ptr), np.uint64(sums.data.ptr), *numbers)
        read((blocks,), (threads,), arguments)
    found = cupy.asnumpy(cycles[1:])
    return float(np.median(found)) / (_LOADS * _WARPS), cupy.asnumpy(sums)
