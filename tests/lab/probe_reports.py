"""Reports of some probes, one of each kind of readings, from invented figures."""

from tests.lab.reports import HARDWARE
from wavetrim.kernels.timing.links import DIRECTIONS, MEMORIES, LockReading
from wavetrim.kernels.timing.readings import CycleReading, LinkReading, MemoryReading
from wavetrim.lab.probes import copies, cpu_rows, cycles, transfers, waves
from wavetrim.lab.probes.staircase import KernelModel
from wavetrim.scheduler.problem import GemmProblem

ELEMENTS = 1000


def move(way, step, gbytes_per_second, *, right=True):
    seconds = 8 * ELEMENTS / gbytes_per_second / 1e9
    return MemoryReading(way, step, 8 * ELEMENTS, (seconds, 3 * seconds, seconds / 2), right)


def stride_copies(*, right=True):
    readings = [move("copy", stride, 1000 / stride, right=right) for stride in copies.STRIDES]
    return copies.STRIDED.make_report(readings, HARDWARE)


def read_banks(*, right=True):
    readings = [
        *(
            CycleReading("stride", stride, 1.25 * cycles.count_turns(stride), right)
            for stride in cycles.STRIDES
        ),
        *(CycleReading("multicast", 32 // group, 1.25, True) for group in cycles.GROUPS),
    ]
    return cycles.report_banks(readings, HARDWARE)


def copy_link(way, direction, size_bytes):
    copies = 2 if direction == "both" else 1
    seconds = 1e-5 + copies * size_bytes / 50e9
    return LinkReading(way, direction, size_bytes, copies, (seconds,) * 3, right=True)


def transfer_memory():
    readings = [
        copy_link(memory, direction, size)
        for memory in MEMORIES
        for size in transfers.SIZES
        for direction in DIRECTIONS
    ]
    locks = [
        LockReading(size, size / 1e11, size / 2e11, size / 5e10) for size in (1 << 20, 1 << 30)
    ]
    return transfers.report_transfers(readings, locks, HARDWARE)


def climb_waves():
    model = KernelModel("shared", "float32", "32x32x32", 12, 2e-6, 1e-6, 1e-8)
    tiles = (3, 6, 9, 12, 15, 18)
    seconds = (8.1e-6, 8.1e-6, 8.1e-6, 8.2e-6, 14.3e-6, 14.3e-6)
    return waves.make_report([waves.Staircase(model, tiles, seconds)], HARDWARE)


def multiply_rows():
    readings = [
        cpu_rows.RowsReading(GemmProblem(m, 64, 64, dtype), (1e-6 * m,) * 3, right=True)
        for dtype in cpu_rows.DTYPES
        for m in cpu_rows.ROWS
    ]
    return cpu_rows.make_report(readings, HARDWARE)


def list_probe_reports():
    return [stride_copies(), read_banks(), transfer_memory(), climb_waves(), multiply_rows()]
