"""Products without parts, with as little Python as possible: short ones of the CPU, straight ones.

After other work the caches have none of the executor's code, and each call costs some µs. So such a
product is not reported while it is computed, and cannot be stopped.
"""

import time
from collections.abc import Callable, Sequence

from wavetrim.cpu.gemm import CpuPool
from wavetrim.kernels.pipeline.pipeline import GpuPipeline
from wavetrim.kernels.pipeline.straight import StraightProduct
from wavetrim.scheduler.execution.occupancy import Occupancy
from wavetrim.scheduler.execution.product import NOTHING, Matrix, check_operands, prepare_cpu_part
from wavetrim.scheduler.execution.rows_done import RowsDone
from wavetrim.scheduler.execution.run import raise_translated
from wavetrim.scheduler.execution.run_notes import RunNotes
from wavetrim.scheduler.execution.timings import Timings
from wavetrim.scheduler.execution.watchdog import Watchdog
from wavetrim.scheduler.planning.plan import Plan


class ShortProducts:
    """Computes the short products of an executor. Thread-safe."""

    def __init__(
        self,
        pool: CpuPool,
        pipelines: Sequence[GpuPipeline],
        occupancy: Occupancy,
        notes: RunNotes,
        watchdog: Watchdog | None,
    ) -> None:
        self._pool, self._pipelines = pool, pipelines
        self._occupancy, self._notes, self._watchdog = occupancy, notes, watchdog

    def compute_on_cpu(
        self, plan: Plan, a: Matrix, b: Matrix, c: Matrix, *, alpha: float, beta: float
    ) -> Timings:
        """Compute a product on the CPU alone.

        Raises:
            ProblemError: As `Executor.run`.
            ExecutionError: Likewise.
        """
        started = time.perf_counter()
        check_operands(plan, a, b, c)
        try:
            if plan.is_small:
                self._pool.multiply_alone(a, b, c, alpha, beta)
                alone = self._occupancy.is_empty
            else:
                with self._occupancy.acquire(plan.device_set) as stay:
                    if not self._pool.native:
                        prepare_cpu_part(self._pool, plan, c.dtype)
                    started = time.perf_counter()
                    self._pool.multiply(a, b, c, alpha=alpha, beta=beta)
                alone = stay.was_alone
        except BaseException as error:
            raise_translated(error)
        seconds = time.perf_counter() - started
        timings = Timings(0.0, 0.0, 0.0, seconds, seconds, plan.f)
        self._notes.note(plan, timings, alone=alone)
        return timings

    def compute_straight(
        self, plan: Plan, a: Matrix, b: Matrix, c: Matrix, *, alpha: float, beta: float
    ) -> Timings | None:
        """Compute a product the straight way; None, with nothing done, if it cannot.

        Raises:
            ExecutionError: As `Executor.run`.
        """
        watchdog, (part,) = self._watchdog, plan.gpu_parts
        with self._occupancy.acquire(plan.device_set) as stay:
            started = time.perf_counter()
            try:
                product = find_straight(plan, self._pipelines, alpha, beta)
                with watchdog.watch(plan.uncorrected.total_seconds) if watchdog else NOTHING:
                    if not product.run(a, b, c):
                        return None
            except BaseException as error:
                raise_translated(error)
            seconds = time.perf_counter() - started
        timings = Timings(None, None, seconds, 0.0, seconds, 0, ((part.position, seconds),))
        self._notes.note(plan, timings, alone=stay.was_alone)
        return timings


def find_straight(
    plan: Plan, pipelines: Sequence[GpuPipeline], alpha: float, beta: float
) -> StraightProduct:
    """The product of a plan that goes the straight way."""
    assert plan.spec is not None, "a plan with GPU rows names a kernel"
    problem, (part,) = plan.problem, plan.gpu_parts
    straight = pipelines[part.position].straight
    return straight.find(plan.spec, (problem.m, problem.n, problem.k), alpha, beta)


def report_all(
    plan: Plan,
    progress: Callable[[RowsDone], None] | None,
    final: Callable[[Sequence[range]], None] | None,
) -> None:
    """Tell the caller of a short product that all of its rows are done."""
    m = plan.problem.m
    if progress is not None:
        progress(RowsDone(m, cpu=m) if plan.f else RowsDone(m, gpu=m))
    if final is not None:
        final([range(m)])
