"""The SDK-style multiply with a checked result.

The product is compared with the CPU's by the relative L2 norm of the difference. As in the program,
the limit is 1e-6 for every K; with a large K, rounding in float32 alone exceeds it.
"""

import time
from dataclasses import dataclass
from typing import Final

import numpy as np

from wavetrim.kernels.catalog import find_kernel
from wavetrim.kernels.timing.seconds import DeviceProduct
from wavetrim.lab.experiments.measurement import LAUNCHES, Measurement, plot_launches
from wavetrim.lab.experiments.operands import Matrix, draw_operands
from wavetrim.lab.reports.bench import Bench, Hardware
from wavetrim.lab.reports.report import Report
from wavetrim.lab.reports.table import Table, format_gflops, format_milliseconds
from wavetrim.scheduler.problem import GemmProblem

NAME: Final = "sdk-multiply"
LIMIT: Final = 1e-6
LISTED: Final = 100
"""Largest number of differing elements in the report."""


@dataclass(frozen=True, slots=True)
class NormCheck:
    """The comparison of a product with its reference.

    Attributes:
        error: ‖found - expected‖₂ / ‖expected‖₂ over all elements.
        differing: Number of elements whose difference exceeds `LIMIT` times the root mean square of
            the reference; at least one if `error` exceeds `LIMIT`.
        first: Row, column, found and expected value of the first of them, in row order.
    """

    error: float
    differing: int
    first: tuple[tuple[int, int, float, float], ...]

    @property
    def passed(self) -> bool:
        """Whether the error is within its limit; NaN is not."""
        return self.error <= LIMIT


def compare_norms(found: Matrix, expected: Matrix) -> NormCheck:
    """Compare a product with its reference in float64."""
    difference = found.astype(np.float64) - expected
    length = float(np.linalg.norm(expected))
    distance = float(np.linalg.norm(difference))
    error = distance / length if length else float(distance > 0)
    wrong = ~(np.abs(difference) <= LIMIT * length / np.sqrt(expected.size))  # NaN is wrong, too
    first = tuple(
        (row, column, float(found[row, column]), float(expected[row, column]))
        for row, column in np.argwhere(wrong)[:LISTED].tolist()
    )
    return NormCheck(error, int(np.count_nonzero(wrong)), first)


def run_experiment(
    bench: Bench, m: int = 160, n: int = 256, k: int = 96, *, w: int = 32, kernel: str = "shared"
) -> Report:
    """Multiply random matrices and compare with the CPU's product: PASSED, or what differs.

    Example:
        wavetrim reproduce sdk-multiply 160 256 96 --w 32 --out figures
    """
    problem = GemmProblem(m, n, k)
    spec = find_kernel(kernel, problem.dtype, str(w))
    bench.tell(0.0, spec.label)
    a, b = draw_operands(problem)
    product = DeviceProduct(a, b, device_index=bench.device.index, cache_dir=bench.cache_dir)
    seconds = product.time_launches(spec, LAUNCHES)
    bench.tell(0.5, "reference on the CPU")
    start = time.perf_counter()
    expected = a.astype(np.float64) @ b.astype(np.float64)
    cpu_seconds = time.perf_counter() - start
    check = compare_norms(product.fetch(), expected)
    bench.tell(1.0, "")
    measured = Measurement(kernel, w, problem.m, problem.n, problem.k, seconds, passed=check.passed)
    return make_report(measured, check, cpu_seconds, bench.hardware)


def make_report(
    measured: Measurement, check: NormCheck, cpu_seconds: float, hardware: Hardware
) -> Report:
    """The report: PASSED or FAILED, the times, and the wrong elements if it failed."""
    m, n, k = measured.m, measured.n, measured.k
    verdict = "PASSED" if check.passed else "FAILED"
    cells = (
        format_milliseconds(measured.seconds),
        format_gflops(measured.gflops),
        format_milliseconds(cpu_seconds),
        f"{check.error:.3g}",
        verdict,
    )
    head = ("GPU, ms", "GFLOP/s", "CPU, ms", "relative L2 norm", "result")
    tables = [Table(f"Limit of the norm: {LIMIT:g}", head, (cells,))]
    if not check.passed:
        tables.append(_list_differences(check))
    return Report(
        name=NAME,
        title=f"C[{m},{n}] = A[{m},{k}]·B[{k},{n}] in float32 with the kernel {measured.kernel}, "
        f"block_size = {measured.w}, random operands on the GPU.",
        hardware=hardware,
        findings=(f"{verdict}: relative L2 norm {check.error:.3g}, limit {LIMIT:g}.",),
        tables=tuple(tables),
        plots=(
            plot_launches(
                f"{NAME}: C[{m},{n}] = A[{m},{k}]·B[{k},{n}], block_size = {measured.w}",
                {measured.kernel: measured.launch_seconds},
            ),
        ),
        rows=(
            {
                **measured.as_row(),
                "cpu_seconds": cpu_seconds,
                "relative_l2_norm": check.error,
                "differing": check.differing,
            },
        ),
        passed=check.passed,
    )


def _list_differences(check: NormCheck) -> Table:
    rows = tuple(
        (str(row), str(column), f"{found:.9g}", f"{expected:.9g}")
        for row, column, found, expected in check.first
    )
    title = f"Elements that differ: {check.differing}, the first {len(rows)} of them"
    return Table(title, ("row", "column", "GPU", "CPU"), rows)
