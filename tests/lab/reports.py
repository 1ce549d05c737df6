"""Reports of experiments and of some probes, from invented figures."""

import numpy as np

from wavetrim.kernels.pipeline.host_product import GpuTimings
from wavetrim.kernels.timing.readings import CycleReading, MemoryReading
from wavetrim.lab.experiments import (
    compara_kernels,
    hybrid_f,
    matmatgpu,
    mulmat,
    mulmatcua,
    sdk_multiply,
)
from wavetrim.lab.experiments.measurement import Measurement
from wavetrim.lab.experiments.reference import (
    HYBRID_SIZE,
    HYBRID_WIDTH,
    SQUARE_SIZES,
    TABLE_10,
    TABLE_17,
    TILE_WIDTHS,
)
from wavetrim.lab.probes import copies, cycles
from wavetrim.lab.reports.bench import Hardware
from wavetrim.scheduler.execution.timings import Timings
from wavetrim.scheduler.problem import GemmProblem

HARDWARE = Hardware("Abacus 9", 12, "1.2", "Difference Engine", 4)


def measure(kernel, w, m, n, k, seconds):
    return Measurement(kernel, w, m, n, k, (seconds, 3 * seconds, seconds / 2), passed=True)


def compare_kernels():
    return compara_kernels.make_report(
        [
            measure(kernel, w, n, n, w, 1e-9 * n * (place + 1) / w)
            for n in SQUARE_SIZES
            for w in TILE_WIDTHS
            for place, kernel in enumerate(compara_kernels.KERNELS)
        ],
        HARDWARE,
    )


def multiply_squares():
    measured = [measure("shared", w, n, n, n, time / 2) for (n, w), time in TABLE_10.items()]
    return mulmatcua.make_report(measured, HARDWARE)


def split(f, *, passed=True):
    return hybrid_f.Split(f, 205, Timings(0.1, 0.2, 0.25, f / 64, max(0.25, f / 64), f), passed)


def split_rows(size=HYBRID_SIZE, **options):
    problem = GemmProblem(size, size, size)
    splits = [split(f, **options) for f in TABLE_17]
    return hybrid_f.make_report(problem, "shared", HYBRID_WIDTH, splits, HARDWARE)


def add_product(*, padding_kept=True):
    runs = (GpuTimings(2e-3, 1e-3, 2.5e-3), GpuTimings(4e-3, 1e-3, 4.5e-3))
    both = tuple(
        matmatgpu.KernelRuns(label, name, runs, product_passed=True, padding_kept=padding_kept)
        for label, name in matmatgpu.KERNELS
    )
    strides = matmatgpu.LeadingDimensions(90, 80, 80)
    return matmatgpu.make_report(GemmProblem(50, 70, 60, "float64"), strides, both, HARDWARE)


def check_product(found, expected):
    check = sdk_multiply.compare_norms(found, expected)
    measured = measure("shared", 32, *expected.shape, 8, 1e-5)
    return sdk_multiply.make_report(measured, check, 0.1, HARDWARE)


def list_reports():
    return [
        compare_kernels(),
        multiply_squares(),
        mulmat.make_report(measure("shared", 32, 224, 256, 192, 5e-6), HARDWARE),
        split_rows(),
        add_product(),
        check_product(np.ones((3, 4), np.float32), np.ones((3, 4))),
    ]


def move(way, step, gbytes_per_second, *, right=True):
    seconds = 8000 / gbytes_per_second / 1e9
    return MemoryReading(way, step, 8000, (seconds, 3 * seconds, seconds / 2), right)


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
