"""One run of a plan: what its two parts share, and how they end together."""

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
from wavetrim.kernels.pipeline.host_product import SharedRows
from wavetrim.kernels.pipeline.pipeline import GpuPipeline, GpuTimings
from wavetrim.native.call_threads import CallThreads
from wavetrim.scheduler.execution.row_queue import RowQueue
from wavetrim.scheduler.execution.self_scheduling import SelfSchedule
from wavetrim.scheduler.execution.watchdog import Watchdog
from wavetrim.scheduler.planning.plan import Plan

Matrix = NDArray[Any]

CANCELLATIONS: Final = (ProductCancelled, PipelineCancelled)
"""What a part raises that was told to stop."""


class RowCounter:
    """Adds up the rows that both parts finish, and reports their share of all rows."""

    def __init__(self, rows: int, report: Callable[[float], None] | None) -> None:
        self._rows = rows
        self._done = 0.0
        self._report = report
        self._lock = threading.Lock()

    def add(self, rows: float) -> None:
        """Count newly finished rows; may be called from any thread."""
        if self._report is None:
            return
        with self._lock:
            self._done += rows
            share = min(1.0, self._done / self._rows)
            self._report(share)


class FinalRows:
    """The rows of C that will not be written any more, as both parts tell of them.

    Args:
        report: Receives all of them, in up to three ranges, from any thread.
    """

    def __init__(self, report: Callable[[Sequence[range]], None] | None) -> None:
        self._report = report
        self._gpu_rows = range(0)
        self._cpu_rows: tuple[range, ...] = ()
        self._lock = threading.Lock()

    @property
    def tell_gpu(self) -> Callable[[range], None] | None:
        """What the GPU part calls with its rows that are final; None if nobody listens."""
        return None if self._report is None else self._take_gpu

    @property
    def tell_cpu(self) -> Callable[[Sequence[range]], None] | None:
        """What the CPU part calls with its rows that are final; None if nobody listens."""
        return None if self._report is None else self._take_cpu

    def _take_gpu(self, rows: range) -> None:
        with self._lock:
            self._gpu_rows = rows
            self._tell()

    def _take_cpu(self, rows: Sequence[range]) -> None:
        with self._lock:
            self._cpu_rows = tuple(rows)
            self._tell()

    def _tell(self) -> None:
        assert self._report is not None, "the parts tell of their rows where somebody listens"
        self._report([rows for rows in (self._gpu_rows, *self._cpu_rows) if rows])


class Execution:
    """C ← αA·B + βC as a plan divides it, once.

    Args:
        plan: Made for this product.
        a: M x K.
        b: K x N.
        c: M x N, written in place.
        alpha: Factor of the product.
        beta: Factor of the C that is there.
        progress: Receives the finished share of C's rows, from any thread.
        cancelled: Asked between pieces whether to stop.
        final: Receives the rows of C that are final so far, from any thread.
        pipeline: The GPU; None where there is none.
        pool: The CPU.
        gpu_thread: Runs the GPU part of a split.
        watchdog: Told how the GPU part comes along; None where nobody watches it.
        comes_again: Whether the calling thread has run products before, and may run others.
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
        progress: Callable[[float], None] | None,
        cancelled: Callable[[], bool] | None,
        final: Callable[[Sequence[range]], None] | None = None,
        pipeline: GpuPipeline | None,
        pool: CpuPool,
        gpu_thread: CallThreads,
        watchdog: Watchdog | None = None,
        comes_again: bool = False,
    ) -> None:
        self._plan = plan
        self._a, self._b, self._c = a, b, c
        self._alpha, self._beta = alpha, beta
        self._cancelled = cancelled
        self._pipeline, self._pool, self._gpu_thread = pipeline, pool, gpu_thread
        self._watchdog = watchdog
        self._comes_again = comes_again
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

        Both parts' seconds are those of the host's clock, from the call to its end.

        A device that computes all rows does so in the calling thread, which saves handing them
        over: 0.1 ms, and more where other work has been on that core. But CUDA's libraries keep a
        handle for each thread, slow to make, so the first product of a thread is handed over.
        """
        plan = self._plan
        if plan.gpu_rows == 0:
            return GpuTimings(0.0, 0.0, 0.0), self._compute_cpu_rows()
        if plan.f:
            return self._compute_both()
        if plan.spec is not None and plan.spec.source is None and not self._comes_again:
            return self._gpu_thread.submit(self._compute_gpu_rows).result(), 0.0
        return self._compute_gpu_rows(), 0.0

    def _compute_both(self) -> tuple[GpuTimings, float]:
        """Both parts at once; when one fails, the other is stopped and the first failure raised.

        The CPU's threads, which take the interpreter's lock one after the other as they wake up,
        do so when the GPU has something to do.
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
        assert self._pipeline is not None, "a plan leaves rows to a GPU only where one is"
        assert plan.spec is not None, "a plan with GPU rows names a kernel"
        shared = SharedRows(plan.gpu_rows, row_queue.take_top) if row_queue.moves else None
        mine = slice(0, plan.problem.m if shared else plan.gpu_rows)
        copiers = plan.share.copiers if plan.f else None
        watched = self._watchdog.watch(plan.predicted.total_seconds) if self._watchdog else None
        started = time.perf_counter()
        try:
            with watched or nullcontext():
                timings = self._pipeline.multiply(
                    plan.spec, self._a[mine], self._b, self._c[mine],
                    cut=plan.find_cut(), alpha=self._alpha, beta=self._beta, sms=plan.sms,
                    progress=self._count_gpu_rows, cancelled=self._is_cancelled, shared=shared,
                    copiers=copiers, begun=self._begun.set, final=self._final.tell_gpu,
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
        self._counter.add(rows)

    def _count_cpu_rows(self, rows: float) -> None:
        self._row_queue.note_cpu_rows(rows)
        self._counter.add(rows)

    def _compute_cpu_rows(self) -> float:
        threads = self._plan.share.threads if self._plan.gpu_rows else self._pool.threads
        return self._multiply_on_cpu(self._row_queue.take_bottom, threads, self._final.tell_cpu)

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
    """How both parts share the rows, where the boundary may move."""
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
    """The failure that counts: one outranks the stop that it caused."""
    return next((one for one in failures if not isinstance(one, CANCELLATIONS)), failures[0])
