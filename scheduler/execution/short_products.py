"""Products of at most 5 ms (`Plan.is_short`), with as little Python as possible.

After other work the caches have none of the executor's code, and each call costs some µs. So a
short product is not reported while it is computed, and cannot be stopped.
"""

import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

from wavetrim.cpu.gemm import CpuPool
from wavetrim.kernels.pipeline.recorded_product import (
    RecordedKind,
    RecordedProduct,
    RecordedTeamProduct,
)
from wavetrim.scheduler.execution.decision_cache import DecisionCache
from wavetrim.scheduler.execution.occupancy import Occupancy
from wavetrim.scheduler.execution.product import NOTHING, Matrix, check_operands, prepare_cpu_part
from wavetrim.scheduler.execution.rows_done import RowsDone
from wavetrim.scheduler.execution.run import raise_translated
from wavetrim.scheduler.execution.run_notes import RunNotes
from wavetrim.scheduler.execution.teams import Teams
from wavetrim.scheduler.execution.timings import Timings, list_part_seconds
from wavetrim.scheduler.execution.watchdog import Watchdog
from wavetrim.scheduler.planning.plan import Plan

_Recorded: TypeAlias = RecordedProduct | RecordedTeamProduct


class ShortProducts:
    """Computes the short products of an executor. Thread-safe."""

    def __init__(
        self,
        pool: CpuPool,
        teams: Teams,
        occupancy: Occupancy,
        notes: RunNotes,
        watchdog: Watchdog | None,
    ) -> None:
        self._pool, self._teams = pool, teams
        self._occupancy, self._notes, self._watchdog = occupancy, notes, watchdog
        self._recorded = DecisionCache[tuple[float, float, _Recorded | None]]()

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

    def compute_on_gpu(
        self, plan: Plan, a: Matrix, b: Matrix, c: Matrix, *, alpha: float, beta: float
    ) -> Timings | None:
        """Compute a product on GPUs alone; None if no commands are recorded for it.

        Raises:
            ExecutionError: As `Executor.run`.
        """
        recorded = self._find_recorded(plan, alpha, beta)
        if recorded is None:
            return None
        watchdog = self._watchdog
        with self._occupancy.acquire(plan.device_set) as stay:
            started = time.perf_counter()
            try:
                with watchdog.watch(plan.prices.total_seconds) if watchdog else NOTHING:
                    gpu_seconds = recorded.run(a, b, c)
                    if gpu_seconds is None:
                        return None
            except BaseException as error:
                raise_translated(error)
            seconds = time.perf_counter() - started
        part_seconds = list_part_seconds(plan, seconds, gpu_seconds)
        timings = Timings(None, None, seconds, 0.0, seconds, 0, part_seconds)
        self._notes.note(plan, timings, alone=stay.was_alone)
        return timings

    def _find_recorded(self, plan: Plan, alpha: float, beta: float) -> _Recorded | None:
        """The recorded commands of a plan; None the first time that it is run."""
        kept = self._recorded.find(plan)
        recorded = None
        if kept is not None:
            kept_alpha, kept_beta, recorded = kept
            if recorded is not None and alpha == kept_alpha and beta == kept_beta:
                return recorded
            recorded = self._record(plan, alpha, beta)
        self._recorded.keep(plan, (alpha, beta, recorded))
        return recorded

    def _record(self, plan: Plan, alpha: float, beta: float) -> _Recorded | None:
        pipelines = [self._teams.pipelines[part.position] for part in plan.gpu_parts]
        if alpha == 0 or any(one.direct is None for one in pipelines):  # with 0 only C is scaled
            return None
        assert plan.spec is not None, "a plan with GPU rows names a kernel"
        problem = plan.problem
        shape = problem.m, problem.n, problem.k
        kind = RecordedKind(plan.spec, shape, alpha=alpha, beta=beta, sms=plan.sms)
        if plan.is_gpu_alone:
            return RecordedProduct(pipelines[0], kind, plan.gpu_parts[0].cut)
        return RecordedTeamProduct(self._teams.find(plan), kind)


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
