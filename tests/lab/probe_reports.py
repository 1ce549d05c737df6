"""Reports of the probes, from invented figures."""

from tests.lab.reports import HARDWARE
from wavetrim.kernels.timing.links import DIRECTIONS, MEMORIES, LockReading
from wavetrim.kernels.timing.readings import (
    CycleReading,
    LinkReading,
    MemoryReading,
    RegisterReading,
)
from wavetrim.lab.gpu.overlap import LaunchReading, StreamReading, Timeline
from wavetrim.lab.gpu.row_copies import GAPS, RowCopyReading
from wavetrim.lab.probes import (
    copies,
    cpu_rows,
    cycles,
    loads,
    overlap,
    registers,
    row_copies,
    transfers,
    waves,
)
from wavetrim.lab.probes.staircase import KernelModel
from wavetrim.lab.reports.report import Report
from wavetrim.scheduler.problem import GemmProblem

ELEMENTS = 1000


def move(way: str, step: int, gbytes_per_second: float, *, right: bool = True) -> MemoryReading:
    seconds = 8 * ELEMENTS / gbytes_per_second / 1e9
    return MemoryReading(way, step, 8 * ELEMENTS, (seconds, 3 * seconds, seconds / 2), right)


def stride_copies(*, right: bool = True) -> Report:
    readings = [move("copy", stride, 1000 / stride, right=right) for stride in copies.STRIDES]
    return copies.STRIDED.make_report(readings, HARDWARE)


def offset_copies() -> Report:
    readings = [move("copy", offset, 900 + offset) for offset in copies.OFFSETS]
    return copies.OFFSET.make_report(readings, HARDWARE)


def vector_copies() -> Report:
    readings = [
        move(way, width, rate * width)
        for way, rate in (("1 load", 9), ("4 loads", 12))
        for width in (4, 8, 16)
    ]
    return copies.VECTORS.make_report(readings, HARDWARE)


def pitch_copies() -> Report:
    readings = [
        move(way, width, rate)
        for width in (250, 1024)
        for way, rate in (("tight", 7), ("pitched", 9))
    ]
    return copies.PITCHED.make_report(readings, HARDWARE)


def load_ways() -> Report:
    sweeps = [
        loads.Sweep(
            varied,
            tuple(
                move(way, value, 100 + value)
                for value in values
                for way in ("cached", "non-cached", "read-only", "texture")
                if (way, value) != ("texture", 16)
            ),
        )
        for varied, values in loads.SWEEPS.items()
    ]
    return loads.make_report(sweeps, HARDWARE)


def turn_matrices() -> Report:
    readings = [
        move(way, side, 100.0 * place)
        for side in copies.SIDES
        for place, way in enumerate(("copy", "naive", "shared", "padded"), 1)
    ]
    return copies.TRANSPOSES.make_report(readings, HARDWARE)


def read_banks(*, right: bool = True) -> Report:
    readings = [
        *(
            CycleReading("stride", stride, 1.25 * cycles.count_turns(stride), right)
            for stride in cycles.STRIDES
        ),
        *(CycleReading("multicast", 32 // group, 1.25, True) for group in cycles.GROUPS),
    ]
    return cycles.report_banks(readings, HARDWARE)


def read_tables() -> Report:
    readings = [
        CycleReading(way, words, float(words) if way == "constant" else 1.0, True)
        for way in ("constant", "read-only")
        for words in cycles.DISTINCT
    ]
    return cycles.report_constants(readings, HARDWARE)


def hold_registers() -> Report:
    readings = [
        RegisterReading(2, 168, 0, (1e-3, 2e-3, 1e-3), True),
        RegisterReading(8, 64, 640, (2e-3, 2e-3, 9e-3), True),
    ]
    return registers.make_report(readings, HARDWARE)


def copy_link(way: str, direction: str, size_bytes: int, *, right: bool = True) -> LinkReading:
    copies = 2 if direction == "both" else 1
    seconds = 1e-5 + copies * size_bytes / 50e9
    return LinkReading(way, direction, size_bytes, copies, (seconds,) * 3, right)


def transfer_memory(*, right: bool = True) -> Report:
    readings = [
        copy_link(memory, direction, size, right=right)
        for memory in MEMORIES
        for size in transfers.SIZES
        for direction in DIRECTIONS
    ]
    locks = [
        LockReading(size, size / 1e11, size / 2e11, size / 5e10) for size in (1 << 20, 1 << 30)
    ]
    return transfers.report_transfers(readings, locks, HARDWARE)


def overlap_chunks() -> Report:
    streams = tuple(
        StreamReading(count, (9e-3 / count,) * 3, right=True) for count in overlap.STREAMS
    )
    found = Timeline(256 << 20, 16, 4e-3, 3e-3, 2e-3, streams)
    return overlap.report_overlap(found, HARDWARE)


def copy_rows() -> Report:
    readings = [
        RowCopyReading(
            length, gaps, direction, 32 << 20, 1e-3, beside, 5e-3, beside > 5e-3, right=True
        )
        for length in (0, *row_copies.ROW_BYTES)
        for gaps in (GAPS[1:] if length else GAPS[:1])
        for direction in ("in", "out")
        for beside in (6e-3 if gaps == "both" else 1.1e-3,)
    ]
    return row_copies.make_report(readings, HARDWARE)


def launch_kernels() -> Report:
    readings = [LaunchReading(n, 4e-6 * n, 1e-3 * n, 1e-3) for n in overlap.COUNTS]
    return overlap.report_launches(readings, HARDWARE)


def copy_peers() -> Report:
    readings = [
        copy_link(way, direction, size)
        for way in ("staged", "copied", "read by a kernel")
        for size in transfers.PEER_SIZES
        for direction in ("0 → 1", "1 → 0", "both")
    ]
    return transfers.report_peers(readings, HARDWARE, direct=True)


def climb_waves() -> Report:
    model = KernelModel("shared", "float32", "32x32x32", 12, 2e-6, 1e-6, 1e-8)
    tiles = (3, 6, 9, 12, 15, 18)
    seconds = (8.1e-6, 8.1e-6, 8.1e-6, 8.2e-6, 14.3e-6, 14.3e-6)
    return waves.make_report([waves.Staircase(model, tiles, seconds)], HARDWARE)


def multiply_rows(*, right: bool = True) -> Report:
    readings = [
        cpu_rows.RowsReading(GemmProblem(m, 64, 64, dtype), (1e-6 * m,) * 3, right)
        for dtype in cpu_rows.DTYPES
        for m in cpu_rows.ROWS
    ]
    return cpu_rows.make_report(readings, HARDWARE)


def list_probe_reports() -> list[Report]:
    return [
        stride_copies(),
        offset_copies(),
        vector_copies(),
        pitch_copies(),
        load_ways(),
        turn_matrices(),
        read_banks(),
        read_tables(),
        hold_registers(),
        transfer_memory(),
        overlap_chunks(),
        copy_rows(),
        launch_kernels(),
        copy_peers(),
        climb_waves(),
        multiply_rows(),
    ]
