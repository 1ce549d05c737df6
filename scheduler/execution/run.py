"""One run of a plan in parts: what they share, and how they end together.

Each GPU has its range of rows, or its columns of all GPUs' rows, and computes it in a thread of its
own. The last GPU's rows and the CPU's are one row queue, so that the boundary between them may
move, unless the GPUs divide columns.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from wavetrim.cpu.blocks import cut_strips
from wavetrim.cpu.errors import ProductCancelled
from wavetrim.cpu.gemm import CpuPool
from wavetrim.kernels.errors import PipelineCancelled
from wavetrim.kernels.pipeline.exchange import Exchange
from wavetrim.kernels.pipeline.host_product import GpuTimings, SharedRows
from wavetrim.kernels.pipeline.pipeline import GpuPipeline
from wavetrim.kernels.schedule.steps import Cut
from wavetrim.native.call_threads import CallThreads
from wavetrim.scheduler.execution.final_rows import FinalRows
from wavetrim.scheduler.execution.product import NOTHING, SHORT_SECONDS, PlannedProduct
from wavetrim.scheduler.execution.row_queue import RowQueue
from wavetrim.scheduler.execution.rows_done import RowCounter
from wavetrim.scheduler.execution.self_scheduling import SelfSchedule
from wavetrim.scheduler.execution.watchdog import Watchdog, Watched
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.planning.team import GpuPart

MOVING_SECONDS: Final = 0.05
"""Least predicted time for which the boundary moves, and GPU parts report rows and can be stopped
while the CPU part computes. Chosen: handing out rows takes both parts the
interpreter's lock, which the CPU's threads may hold while they wait for a core. Of twelve splits
eight of 11 to 42 ms took 1.045 times as long as with F pinned, four of 90 ms and more 0.98 times
(an H200 held to 8 multiprocessors; 0e5a6d6)."""

CANCELLATIONS: Final = (ProductCancelled, PipelineCancelled)
"""Errors of a part that was cancelled."""


class Execution:
    """One run of a product in parts, or on the CPU alone.

    Args:
        product: The product.
        pipelines: The GPUs, at the positions that the plan names.
        pool: The CPU.
        gpu_threads: A thread for each GPU.
        watchdog: Watches the progress of the GPU parts; None for no watchdog.
    """

    def __init__(
        self,
        product: PlannedProduct,
        *,
        pipelines: Sequence[GpuPipeline],
        pool: CpuPool,
        gpu_threads: Sequence[CallThreads],
        watchdog: Watchdog | None = None,
    ) -> None:
        plan = product.plan
        self._product, self._plan = product, plan
        self._pipelines, self._pool, self._gpu_threads = pipelines, pool, gpu_threads
        self._watchdog = watchdog
        self._parts = plan.gpu_parts
        # The rows of the last GPU and of the CPU.
        self._queued = slice(self._parts[-1].rows.start if self._parts else 0, plan.problem.m)
        rows = plan.problem.m - self._queued.start
        self._is_brief = plan.predicted.total_seconds < MOVING_SECONDS
        schedule = None if self._is_brief else _choose_schedule(plan, self._parts, rows)
        self._row_queue = RowQueue(rows, plan.f, schedule)
        self._counter = RowCounter(plan.problem.m, product.progress)
        self._final = FinalRows(product.final)
        self._stop = threading.Event()
        self._begun = [threading.Event() for _ in self._parts]
        self._exchange: Exchange | None = None
        if plan.exchanges:
            gpus = [pipelines[part.position] for part in self._parts]
            self._exchange = Exchange([gpu.device_index for gpu in gpus])

    @property
    def f(self) -> int:
        """Rows that the CPU has taken."""
        return self._row_queue.f

    def compute(self) -> tuple[list[GpuTimings], float]:
        """Compute all rows; returns the timings of each GPU part and the CPU part's seconds.

        Seconds are those of the host's clock, from the call to its end. The CPU part runs in the
        calling thread: another one would take 0.1 ms longer, and more if its core is busy.
        """
        if self._plan.gpu_rows == 0:
            return [], self._compute_cpu_rows()
        return self._compute_together()

    def _compute_together(self) -> tuple[list[GpuTimings], float]:
        """Run all parts at the same time; if one fails, stop the others and raise the failure.

        The CPU part starts once the GPUs have work: waking its threads needs the interpreter's
        lock.
        """
        waits: list[Callable[[], GpuTimings]] = []
        timings: list[GpuTimings] = []
        failures: list[BaseException] = []
        cpu_seconds = 0.0
        try:
            waits.extend(map(self._start_gpu_part, range(len(self._parts))))
            if self._plan.f:
                for begun in self._begun:
                    begun.wait()
                cpu_seconds = self._compute_cpu_rows()
        except BaseException as error:
            self._stop.set()
            failures.append(error)
        for wait in waits:
            try:
                timings.append(wait())
            except BaseException as error:
                failures.append(error)
        if failures:
            raise _find_cause(failures)
        if self._row_queue.moves and (rest := self._row_queue.take_rest()):
            parts = iter([rest])
            cpu_seconds += self._multiply_on_cpu(
                self._queued, lambda _: next(parts, range(0)), self._pool.threads, None
            )
        return timings, cpu_seconds

    def _start_gpu_part(self, number: int) -> Callable[[], GpuTimings]:
        """Start a part; returns what waits for it.

        A brief part that needs nothing more of the host is enqueued whole by the calling thread:
        another one would begin 0.1 ms later, and its reports need the interpreter's lock.
        """
        if self._is_brief and self._exchange is None:
            wait = self._submit_gpu_rows(number)
            if wait is not None:
                return wait
        position = self._parts[number].position
        return self._gpu_threads[position].submit(self._compute_gpu_rows, number).result

    def _submit_gpu_rows(self, number: int) -> Callable[[], GpuTimings] | None:
        """Enqueue a part; returns what waits for it, or None if it needs the host meanwhile."""
        product, plan, part = self._product, self._plan, self._parts[number]
        assert plan.spec is not None, "a plan with GPU rows names a kernel"
        _, mine = self._find_rows(number)
        columns = slice(part.columns.start, part.columns.stop)
        share = len(part.columns) / plan.problem.n
        finish = self._pipelines[part.position].submit(
            plan.spec, product.a[mine], product.b[:, columns], product.c[mine, columns],
            cut=part.cut, alpha=product.alpha, beta=product.beta, sms=plan.sms,
            progress=partial(self._count_gpu_rows, None, share),
            final=self._open_final(number), timed=product.timed, b_key=product.b_key,
        )  # fmt: skip
        if finish is None:
            return None
        self._begun[number].set()

        def wait() -> GpuTimings:
            watchdog = self._watchdog
            with watchdog.watch(plan.predicted.total_seconds) if watchdog else NOTHING:
                return finish()

        return wait

    def _compute_gpu_rows(self, number: int) -> GpuTimings:
        product, plan = self._product, self._plan
        part, begun = self._parts[number], self._begun[number]
        assert plan.spec is not None, "a plan with GPU rows names a kernel"
        shared, mine = self._find_rows(number)
        columns = slice(part.columns.start, part.columns.stop)
        share = len(part.columns) / plan.problem.n
        seat = None if self._exchange is None else self._exchange.seats[number]
        watchdog = self._watchdog
        started = time.perf_counter()
        try:
            with watchdog.watch(plan.predicted.total_seconds) if watchdog else NOTHING as watched:
                timings = self._pipelines[part.position].multiply(
                    plan.spec, product.a[mine], product.b[:, columns], product.c[mine, columns],
                    cut=self._find_cut(part), alpha=product.alpha, beta=product.beta, sms=plan.sms,
                    progress=partial(self._count_gpu_rows, watched, share),
                    cancelled=self._is_cancelled,
                    shared=shared, copiers=self._count_copiers(), begun=begun.set,
                    final=self._open_final(number), timed=product.timed, seat=seat,
                    b_key=product.b_key,
                )  # fmt: skip
        except BaseException:
            self._stop.set()
            raise
        finally:
            begun.set()
            if seat is not None:
                seat.leave()
        return timings._replace(gpu_seconds=time.perf_counter() - started)

    def _find_rows(self, number: int) -> tuple[SharedRows | None, slice]:
        """A part's row queue, if it has one, and the rows of C that it may compute."""
        rows = self._parts[number].rows
        if self._row_queue.moves and number == len(self._parts) - 1:
            return SharedRows(len(rows), self._row_queue.take_top), self._queued
        return None, slice(rows.start, rows.stop)

    def _find_cut(self, part: GpuPart) -> Cut:
        """The cut of a part; GPUs that exchange B cut it alike."""
        if self._exchange is None:
            return part.cut
        cut, rows = self._parts[0].cut, len(part.rows)
        first_rows, panel_rows = min(rows, cut.first_rows), min(rows, cut.panel_rows)
        return replace(cut, first_rows=first_rows, panel_rows=panel_rows)

    def _count_copiers(self) -> int:
        """Threads for each GPU's staged copies."""
        return max(1, self._plan.share.copiers // len(self._parts))

    def _open_final(self, number: int) -> Callable[[range], None] | None:
        """Callback for a part's final rows; None if other GPUs write other columns of them."""
        if self._plan.divides_columns:
            return None
        return self._final.open_gpu(number, self._parts[number].rows.start)

    def _count_gpu_rows(self, watched: Watched | None, share: float, rows: float) -> None:
        """Count rows of which a GPU has this share of the columns."""
        if watched is not None:
            watched.note_progress()
        self._counter.add("gpu", share * rows)

    def _count_cpu_rows(self, rows: float) -> None:
        self._row_queue.note_cpu_rows(rows)
        self._counter.add("cpu", rows)

    def _compute_cpu_rows(self) -> float:
        plan, queued = self._plan, self._queued
        threads = plan.share.threads if plan.gpu_rows else self._pool.threads
        if self._row_queue.moves:
            final = self._final.open_cpu(queued.start)
            return self._multiply_on_cpu(queued, self._row_queue.take_bottom, threads, final)
        rows = self._row_queue.take_bottom(0.0)
        mine = slice(queued.start + rows.start, queued.start + rows.stop)
        if plan.predicted.cpu_seconds <= SHORT_SECONDS:
            return self._multiply_silently(mine, threads)
        parts = iter([range(len(rows))])
        final = self._final.open_cpu(mine.start)
        return self._multiply_on_cpu(mine, lambda _: next(parts, range(0)), threads, final)

    def _multiply_silently(self, mine: slice, threads: int) -> float:
        """Compute rows of C in one call, and report them afterwards."""
        product, rows = self._product, mine.stop - mine.start
        try:
            seconds = self._pool.multiply(
                product.a[mine], product.b, product.c[mine],
                alpha=product.alpha, beta=product.beta, threads=threads,
            )  # fmt: skip
        except BaseException:
            self._stop.set()
            raise
        self._count_cpu_rows(rows)
        if (final := self._final.open_cpu(mine.start)) is not None:
            final([range(rows)])
        return seconds

    def _multiply_on_cpu(
        self,
        mine: slice,
        take: Callable[[float], range],
        threads: int,
        final: Callable[[Sequence[range]], None] | None,
    ) -> float:
        """Compute those of some rows of C that `take` returns, counted from the first of them."""
        product = self._product
        try:
            return self._pool.multiply_rows(
                product.a[mine], product.b, product.c[mine], take,
                likely_rows=self._plan.f if self._row_queue.moves else None,
                alpha=product.alpha, beta=product.beta, threads=threads,
                progress=self._count_cpu_rows, cancelled=self._is_cancelled, final=final,
            )  # fmt: skip
        except BaseException:
            self._stop.set()
            raise

    def _is_cancelled(self) -> bool:
        cancelled = self._product.cancelled
        return self._stop.is_set() or (cancelled is not None and cancelled())


def _choose_schedule(plan: Plan, parts: Sequence[GpuPart], rows: int) -> SelfSchedule | None:
    """The rule of the boundary between the last GPU and the CPU; None if it does not move.

    It does not move if F was given, and if the GPUs divide columns.

    Args:
        plan: The plan.
        parts: The parts of its GPUs.
        rows: Rows of the last of them and of the CPU.
    """
    if plan.pinned or not parts or not plan.f or plan.divides_columns:
        return None
    problem = plan.problem
    strips = cut_strips(plan.f, problem.n, max(1, problem.k), plan.share.threads)
    return SelfSchedule(
        rows=rows,
        planned=rows - plan.f,
        total_seconds=plan.predicted.total_seconds,
        round_rows=strips.round_rows,
        tile_rows=parts[-1].curve.problem.tile_m,
    )


def _find_cause(failures: list[BaseException]) -> BaseException:
    """The first failure that is not merely the stop caused by another."""
    return next((one for one in failures if not isinstance(one, CANCELLATIONS)), failures[0])
