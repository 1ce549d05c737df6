"""Measurements of products resident on the GPU, for each kernel."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from wavetrim.kernels.spec import KernelSpec
from wavetrim.kernels.timing.seconds import DeviceProduct
from wavetrim.lab.experiments.operands import draw_operands
from wavetrim.lab.reports.bench import Bench
from wavetrim.lab.reports.plot import Line, Panel, Plot
from wavetrim.lab.reports.table import Row
from wavetrim.scheduler.check.verify import verify_product
from wavetrim.scheduler.problem import GemmProblem

LAUNCHES: Final = 9
"""Timed launches, after one warm-up."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One kernel on one product, without copies to and from the GPU.

    Attributes:
        kernel: Name of the kernel.
        w: Width of its tile.
        m: Rows of C.
        n: Columns of C.
        k: Columns of A.
        launch_seconds: Seconds of each launch, in order.
        passed: Whether the product was right.
    """

    kernel: str
    w: int
    m: int
    n: int
    k: int
    launch_seconds: tuple[float, ...]
    passed: bool

    @property
    def seconds(self) -> float:
        """Median of the launches."""
        return statistics.median(self.launch_seconds)

    @property
    def gflops(self) -> float:
        """Rate in 1e9 multiplications and additions a second, at the median."""
        return 2 * self.m * self.n * self.k / self.seconds / 1e9

    def as_row(self) -> Row:
        """The measurement as a row of a CSV file."""
        return {
            "kernel": self.kernel,
            "w": self.w,
            "m": self.m,
            "n": self.n,
            "k": self.k,
            "launches": len(self.launch_seconds),
            "median_seconds": self.seconds,
            "least_seconds": min(self.launch_seconds),
            "most_seconds": max(self.launch_seconds),
            "gflops": self.gflops,
            "passed": self.passed,
        }


def measure_kernels(
    bench: Bench, cases: Sequence[tuple[GemmProblem, Sequence[KernelSpec]]]
) -> tuple[Measurement, ...]:
    """Time kernels on products and check the results.

    Args:
        bench: The machine.
        cases: Products, each with its kernels.
    """
    steps = sum(len(specs) for _, specs in cases)
    measured: list[Measurement] = []
    for problem, specs in cases:
        m, n, k = problem.m, problem.n, problem.k
        bench.tell(len(measured) / steps, f"{m} x {n} x {k}")
        a, b = draw_operands(problem)
        product = DeviceProduct(a, b, device_index=bench.device.index, cache_dir=bench.cache_dir)
        for spec in specs:
            bench.tell(len(measured) / steps, f"{spec.name} W = {spec.tile.n}, {m} x {n} x {k}")
            seconds = product.time_launches(spec, LAUNCHES)
            passed = verify_product(a, b, None, product.fetch()).passed
            measured.append(Measurement(spec.name, spec.tile.n, m, n, k, seconds, passed))
    bench.tell(1.0, "")
    return tuple(measured)


def name_wrong(measured: Sequence[Measurement]) -> tuple[str, ...]:
    """A sentence for each wrong product, or one that all are right."""
    wrong = [one for one in measured if not one.passed]
    if not wrong:
        return ("Every product was right.",)
    return tuple(
        f"WRONG: {one.kernel}, W = {one.w}, at M = {one.m}, N = {one.n}, K = {one.k}."
        for one in wrong
    )


def plot_launches(title: str, launches: dict[str, tuple[float, ...]]) -> Plot:
    """A plot of the seconds of each launch, with a line for each name."""
    lines = tuple(
        Line(name, tuple(range(1, len(seconds) + 1)), seconds, colour=colour)
        for colour, (name, seconds) in enumerate(launches.items())
    )
    panel = Panel("time of each run", "run", "time", lines, y_unit="s")
    return Plot("", title, (panel,))
