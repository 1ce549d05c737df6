"""C ← C + A·B in double precision with leading dimensions: both kernels of `matmatgpu1`.

Rows are padded; the padding between the rows of C must not change.
"""

import statistics
from dataclasses import dataclass
from typing import Final

import numpy as np

from wavetrim.kernels.catalog import find_kernel
from wavetrim.kernels.pipeline.host_product import GpuTimings, HostProduct
from wavetrim.kernels.pipeline.pipeline import GpuPipeline
from wavetrim.kernels.schedule.panels import Cut
from wavetrim.kernels.spec import KernelSpec
from wavetrim.lab.experiments.measurement import plot_launches
from wavetrim.lab.experiments.operands import Matrix, draw_matrix, draw_operands, pad_matrix
from wavetrim.lab.reports.bench import Bench, Hardware
from wavetrim.lab.reports.report import Report
from wavetrim.lab.reports.table import Row, Table, format_gflops, format_milliseconds
from wavetrim.scheduler.check.verify import verify_product
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.presets import describe_gpu
from wavetrim.scheduler.profile.store import build_preset_profile

NAME: Final = "matmatgpu"
KERNELS: Final = (("kernel1", "naive"), ("kernel2", "shared"))
"""The program's names and the catalog's; both with W = 32."""

RUNS: Final = 7
_WIDTH: Final = "32"
_PADDING: Final = -3.0


@dataclass(frozen=True, slots=True)
class LeadingDimensions:
    """Leading dimensions in elements."""

    lda: int
    ldb: int
    ldc: int


@dataclass(frozen=True, slots=True)
class KernelRuns:
    """The runs of one kernel.

    Attributes:
        label: The program's name of the kernel.
        kernel: The catalog's name.
        runs: Timings of each run.
        product_passed: Whether C + A·B was right.
        padding_kept: Whether the padding of C is unchanged.
    """

    label: str
    kernel: str
    runs: tuple[GpuTimings, ...]
    product_passed: bool
    padding_kept: bool

    @property
    def passed(self) -> bool:
        """Whether product and padding are right."""
        return self.product_passed and self.padding_kept

    def find_median(self, part: str) -> float:
        """Median seconds of "kernel", "transfer" or "gpu"."""
        return float(statistics.median(getattr(run, f"{part}_seconds") for run in self.runs))


def run_experiment(
    bench: Bench,
    m: int = 2000,
    n: int = 2100,
    k: int = 1900,
    *,
    lda: int | None = None,
    ldb: int | None = None,
    ldc: int | None = None,
) -> Report:
    """Add A·B to C in float64 with leading dimensions, by both kernels; padding stays untouched.

    Example:
        wavetrim reproduce matmatgpu 2000 2100 1900 --out figures
    """
    problem = GemmProblem(m, n, k, "float64")
    a, b = draw_operands(problem)
    a, _ = pad_matrix(a, lda, "lda", fill=np.nan)
    b, _ = pad_matrix(b, ldb, "ldb", fill=np.nan)
    before = draw_matrix(problem.m, problem.n, problem.dtype, seed=3)
    c, memory = pad_matrix(before, ldc, "ldc", fill=_PADDING)
    pipeline = GpuPipeline(
        bench.device.index, cache_dir=bench.cache_dir, gpu_memory_bytes=bench.gpu_memory_bytes
    )
    measured = []
    try:
        for done, (label, name) in enumerate(KERNELS):
            bench.tell(done / len(KERNELS), f"{label}, {name}")
            spec = find_kernel(name, problem.dtype, _WIDTH)
            runs = _run_kernel(pipeline, spec, (a, b, c), before, _find_cut(bench, problem, spec))
            passed = verify_product(a, b, before, c, alpha=1.0, beta=1.0).passed
            kept = is_padding_kept(memory, problem.n)
            measured.append(KernelRuns(label, name, runs, passed, kept))
    finally:
        pipeline.close()
    bench.tell(1.0, "")
    used = tuple(array.strides[0] // array.itemsize for array in (a, b, c))
    return make_report(problem, LeadingDimensions(*used), tuple(measured), bench.hardware)


def is_padding_kept(memory: Matrix, columns: int) -> bool:
    """Whether the padding is unchanged."""
    return bool(np.all(memory[:, columns:] == _PADDING))


def make_report(
    problem: GemmProblem,
    strides: LeadingDimensions,
    measured: tuple[KernelRuns, ...],
    hardware: Hardware,
) -> Report:
    """The report: times of both kernels, and whether product and padding are right."""
    m, n, k = problem.m, problem.n, problem.k
    cells = tuple(
        (
            f"{one.label} ({one.kernel})",
            *(format_milliseconds(one.find_median(part)) for part in ("kernel", "transfer", "gpu")),
            format_gflops(problem.flops / one.find_median("kernel") / 1e9),
            "right" if one.product_passed else "WRONG",
            "kept" if one.padding_kept else "WRITTEN",
        )
        for one in measured
    )
    head = ("times, ms", "kernel", "transfer", "GPU", "GFLOP/s", "C + A·B", "padding")
    return Report(
        name=NAME,
        title=f"C[{m},{n}] ← C + A[{m},{k}]·B[{k},{n}] in {problem.dtype}, rows {strides.lda}, "
        f"{strides.ldb} and {strides.ldc} elements apart, operands in host memory.",
        hardware=hardware,
        findings=(
            "GPU is the time from the first copy to the last; copies overlap the kernel.",
            "PASSED" if all(one.passed for one in measured) else "FAILED",
        ),
        tables=(Table("Both kernels, medians", head, cells),),
        plots=(
            plot_launches(
                f"{NAME}: kernel alone, C[{m},{n}] += A[{m},{k}]·B[{k},{n}]",
                {
                    f"{one.label} ({one.kernel})": tuple(
                        run.kernel_seconds or 0.0 for run in one.runs
                    )
                    for one in measured
                },
            ),
        ),
        rows=tuple(_make_row(problem, strides, one) for one in measured),
        passed=all(one.passed for one in measured),
    )


def _find_cut(bench: Bench, problem: GemmProblem, spec: KernelSpec) -> Cut:
    """The best cut of the product, by the GPU's data sheet."""
    profile = build_preset_profile(describe_gpu(bench.device), "data sheet", cpu_threads=1)
    options = PlanOptions(kernel=spec.name, tile=str(spec.tile), f=0)
    return choose_plan(problem, profile, options).gpu_parts[0].cut


def _run_kernel(
    pipeline: GpuPipeline,
    spec: KernelSpec,
    operands: tuple[Matrix, Matrix, Matrix],
    before: Matrix,
    cut: Cut,
) -> tuple[GpuTimings, ...]:
    """Timings of all runs but the first, which compiles; C is restored before each run."""
    product = HostProduct(spec, *operands, beta=1.0, timed=True)
    runs = []
    for _ in range(RUNS + 1):
        product.c[...] = before
        runs.append(pipeline.multiply(product, cut))
    return tuple(runs[1:])


def _make_row(problem: GemmProblem, strides: LeadingDimensions, one: KernelRuns) -> Row:
    return {
        "kernel": one.kernel,
        "reference_name": one.label,
        "m": problem.m,
        "n": problem.n,
        "k": problem.k,
        "lda": strides.lda,
        "ldb": strides.ldb,
        "ldc": strides.ldc,
        "runs": len(one.runs),
        **{f"{part}_seconds": one.find_median(part) for part in ("kernel", "transfer", "gpu")},
        "passed": one.product_passed,
        "padding_kept": one.padding_kept,
    }
