"""Reports of some probes, one of each kind of readings, from invented figures."""

from tests.lab.reports import HARDWARE
from wavetrim.kernels.timing.readings import CycleReading, MemoryReading
from wavetrim.lab.probes import copies, cycles

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


def list_probe_reports():
    return [stride_copies(), read_banks()]
