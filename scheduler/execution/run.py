"""One run of a plan: its two parts, what they share, and how they end together."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Final

from numpy.typing import NDArray

from wavetrim.cpu.blocks import cut_strips
from wavetrim.cpu.errors import ProductCancelled
from wavetrim.cpu.gemm import CpuPool
from wavetrim.kernels.errors import PipelineCancelled
from wavetrim.kernels.pipeline.host_product import GpuTimings, SharedRows
from wavetrim.kernels.pipeline.pipeline import GpuPipeline
from wavetrim.native.call_threads import CallThreads
from wavetrim.scheduler.execution.row_queue import RowQueue
from wavetrim.scheduler.execution.rows_done import RowCounter, RowsDone
from wavetrim.scheduler.execution.self_scheduling import SelfSchedule
from wavetrim.scheduler.execution.watchdog import Watchdog
from wavetrim.scheduler.planning.plan import Plan

Matrix = NDArray[Any]

NO_GPU_TIME: Final = GpuTimings(0.0, 0.0, 0.0)
"""Of a product without a GPU part."""

CANCELLATIONS: Final = (ProductCancelled, PipelineCancelled)
"""Errors of a part that was cancelled."""


class FinalRows:
    """The rows of C that will not be written again, as reported by both parts.

    Args:
        report: Called with all of them, in up to three ranges, from any thread.
    """

    def __init__(self, report: Callable[[Sequence[range]], None] | None) -> None:
        self._report = report
        self._gpu_rows = range(0)
        self._cpu_rows: tuple[range, ...] = ()
        self._lock = threading.Lock()

    @property
    def report_gpu(self) -> Callable[[range], None] | None:
        """Callback of the GPU part for its final rows; None if there is no `report`."""
        return None if self._report is None else self._take_gpu

    @property
    def report_cpu(self) -> Callable[[Sequence[range]], None] | None:
        """Callback of the CPU part for its final rows; None if there is no `report`."""
        return None if self._report is None else self._take_cpu

    def _take_gpu(self, rows: range) -> None:
        with self._lock:
            self._gpu_rows = rows
            self._report_all()

    def _take_cpu(self, rows: Sequence[range]) -> None:
        with self._lock:
            self._cpu_rows = tuple(rows)
            self._report_all()

    def _report_all(self) -> None:
        assert self._report is not None, "parts report rows only if there is a `report`"
        self._report([rows for rows in (self._gpu_rows, *self._cpu_rows) if rows])


def compute_on_gpu(
    plan: Plan,
    a: Matrix,
    b: Matrix,
    c: Matrix,
    *,
    alpha: float,
    beta: float,
    progress: Callable[[RowsDone], None] | None,
    cancelled: Callable[[], bool] | None,
    final: Callable[[Sequence[range]], None] | None,
    pipeline: GpuPipeline,
    watchdog: Watchdog | None,
    timed: bool,
) -> GpuTimings:
    """C ← αA·B + βC on the GPU alone, in the calling thread; arguments as for `Execution`."""
    assert plan.spec is not None, "a plan with GPU rows names a kernel"
    counter = RowCounter(plan.problem.m, progress) if progress is not None else None

    def count_rows(rows: float) -> None:
        if watchdog is not None:
            watchdog.note_progress()
        if counter is not None:
            counter.add("gpu", rows)

    with watchdog.watch(plan.predicted.total_seconds) if watchdog else nullcontext():
        return pipeline.multiply(
            plan.spec, a, b, c, cut=plan.cut, alpha=alpha, beta=beta, sms=plan.sms,
            progress=count_rows if watchdog or counter else None, cancelled=cancelled,
            final=None if final is None else lambda rows: final([rows]), timed=timed,
        )  # fmt: skip


class Execution:
    """C ← αA·B + βC as a plan divides it, once, where the CPU computes some rows or all.

    Args:
        plan: Made for this product.
        a: M x K.
        b: K x N.
        c: M x N, written in place.
        alpha: Factor of the product.
        beta: Factor of the old C.
        progress: Called with the finished rows of C, from any thread.
        cancelled: Polled while the product runs; True ends it.
        final: Called with the rows of C that are final so far, from any thread.
        pipeline: The GPU; None without one.
        pool: The CPU.
        gpu_thread: Runs the GPU part of a split.
        watchdog: Watches the progress of the GPU part; None for no watchdog.
        timed: Whether the GPU's copies and kernels are timed.
    """

    def __init__(
        self,
        plan: Plan,
        a: Matrix,
        b: Matrix,
        c: Matrix,
        *,
        alpha: float,
        beta: float,
        progress: Callable[[RowsDone], None] | None,
        cancelled: Callable[[], bool] | None,
        final: Callable[[Sequence[range]], None] | None = None,
        pipeline: GpuPipeline | None,
        pool: CpuPool,
        gpu_thread: CallThreads,
        watchdog: Watchdog | None = None,
        timed: bool = False,
    ) -> None:
        self._plan = plan
        self._a, self._b, self._c = a, b, c
        self._alpha, self._beta = alpha, beta
        self._cancelled = cancelled
        self._pipeline, self._pool, self._gpu_thread = pipeline, pool, gpu_thread
        self._watchdog = watchdog
        self._timed = timed
        self._row_queue = RowQueue(plan.problem.m, plan.f, _choose_schedule(plan))
        self._counter = RowCounter(plan.problem.m, progress)
        self._final = FinalRows(final)
        self._stop = threading.Event()
        self._begun = threading.Event()

    @property
    def f(self) -> int:
        """Rows that the CPU has taken."""
        return self._row_queue.f

    def compute(self) -> tuple[GpuTimings, float]:
        """Compute all rows; returns the GPU part's timings and the CPU part's seconds.

        Seconds are those of the host's clock, from the call to its end.

        A CPU that computes all rows does so in the calling thread: another one would take 0.1 ms
        longer, and more if its core was busy.
        """
        if self._plan.gpu_rows == 0:
            return NO_GPU_TIME, self._compute_cpu_rows()
        return self._compute_both()

    def _compute_both(self) -> tuple[GpuTimings, float]:
        """Run both parts at the same time; if one fails, stop the other and raise the failure.

        The CPU part starts once the GPU has work: waking its threads needs the interpreter's lock.
        """
        gpu_part = self._gpu_thread.submit(self._compute_gpu_rows)
        self._begun.wait()
        failures: list[BaseException] = []
        cpu_seconds = 0.0
        try:
            cpu_seconds = self._compute_cpu_rows()
        except BaseException as error:
            failures.append(error)
        gpu_failure = gpu_part.exception()
        if gpu_failure is not None:
            failures.append(gpu_failure)
        if failures:
            raise _find_cause(failures)
        if self._row_queue.moves and (rest := self._row_queue.take_rest()):
            parts = iter([rest])
            cpu_seconds += self._multiply_on_cpu(
                lambda _: next(parts, range(0)), self._pool.threads, None
            )
        return gpu_part.result(), cpu_seconds

    def _compute_gpu_rows(self) -> GpuTimings:
        plan, row_queue = self._plan, self._row_queue
        assert self._pipeline is not None, "only a machine with a GPU plans rows for it"
        assert plan.spec is not None, "a plan with GPU rows names a kernel"
        shared = SharedRows(plan.gpu_rows, row_queue.take_top) if row_queue.moves else None
        mine = slice(0, plan.problem.m if shared else plan.gpu_rows)
        copiers = plan.share.copiers
        watched = self._watchdog.watch(plan.predicted.total_seconds) if self._watchdog else None
        started = time.perf_counter()
        try:
            with watched or nullcontext():
                timings = self._pipeline.multiply(
                    plan.spec, self._a[mine], self._b, self._c[mine],
                    cut=plan.cut, alpha=self._alpha, beta=self._beta, sms=plan.sms,
                    progress=self._count_gpu_rows, cancelled=self._is_cancelled, shared=shared,
                    copiers=copiers, begun=self._begun.set, final=self._final.report_gpu,
                    timed=self._timed,
                )  # fmt: skip
        except BaseException:
            self._stop.set()
            raise
        finally:
            self._begun.set()
        return replace(timings, gpu_seconds=time.perf_counter() - started)

    def _count_gpu_rows(self, rows: float) -> None:
        if self._watchdog is not None:
            self._watchdog.note_progress()
        self._counter.add("gpu", rows)

    def _count_cpu_rows(self, rows: float) -> None:
        self._row_queue.note_cpu_rows(rows)
        self._counter.add("cpu", rows)

    def _compute_cpu_rows(self) -> float:
        threads = self._plan.share.threads if self._plan.gpu_rows else self._pool.threads
        return self._multiply_on_cpu(self._row_queue.take_bottom, threads, self._final.report_cpu)

    def _multiply_on_cpu(
        self,
        take: Callable[[float], range],
        threads: int,
        final: Callable[[Sequence[range]], None] | None,
    ) -> float:
        try:
            return self._pool.multiply_rows(
                self._a, self._b, self._c, take,
                likely_rows=self._plan.f if self._row_queue.moves else None,
                alpha=self._alpha, beta=self._beta, threads=threads,
                progress=self._count_cpu_rows, cancelled=self._is_cancelled, final=final,
            )  # fmt: skip
        except BaseException:
            self._stop.set()
            raise

    def _is_cancelled(self) -> bool:
        return self._stop.is_set() or (self._cancelled is not None and self._cancelled())


def _choose_schedule(plan: Plan) -> SelfSchedule | None:
    """The rule of the moving boundary; None if it does not move."""
    if plan.pinned or plan.gpu_curve is None or not 0 < plan.f < plan.problem.m:
        return None
    problem = plan.problem
    strips = cut_strips(plan.f, problem.n, max(1, problem.k), plan.share.threads)
    return SelfSchedule(
        rows=problem.m,
        planned=plan.gpu_rows,
        total_seconds=plan.predicted.total_seconds,
        round_rows=strips.round_rows,
        tile_rows=plan.gpu_curve.problem.tile_m,
    )


def _find_cause(failures: list[BaseException]) -> BaseException:
    """The first failure that is not merely the stop caused by another."""
    return next((one for one in failures if not isinstance(one, CANCELLATIONS)), failures[0])
