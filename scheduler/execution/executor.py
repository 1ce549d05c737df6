"""The executor: owns the devices of a process, and runs plans on them."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np

from wavetrim.cpu.blocks import can_share
from wavetrim.cpu.errors import CpuError
from wavetrim.cpu.gemm import CpuPool
from wavetrim.cpu.prepared import NATIVE_DTYPES
from wavetrim.kernels.device import DeviceInfo
from wavetrim.kernels.errors import DeviceFailure, KernelsError
from wavetrim.kernels.pipeline.host_product import GpuTimings
from wavetrim.kernels.pipeline.pipeline import GpuPipeline
from wavetrim.kernels.pipeline.residents import RESIDENT_SHARE
from wavetrim.kernels.spec import KernelSpec
from wavetrim.native.call_threads import CallThreads
from wavetrim.scheduler.errors import ExecutionCancelled, ExecutionError
from wavetrim.scheduler.execution.gpu_alone import GpuAlone
from wavetrim.scheduler.execution.occupancy import Occupancy
from wavetrim.scheduler.execution.prefault import Prefault
from wavetrim.scheduler.execution.product import (
    NOTHING,
    Matrix,
    PlannedProduct,
    check_operands,
)
from wavetrim.scheduler.execution.residents import ResidentOperands
from wavetrim.scheduler.execution.rows_done import RowsDone
from wavetrim.scheduler.execution.run import CANCELLATIONS, Execution
from wavetrim.scheduler.execution.teams import Teams
from wavetrim.scheduler.execution.timings import Timings, compare_with_plan, sum_up
from wavetrim.scheduler.execution.watchdog import Watchdog
from wavetrim.scheduler.planning.lanes import CPU
from wavetrim.scheduler.planning.plan import Plan

BRIEF_SECONDS: Final = 3e-3
"""Predicted time below which not every run is recorded; chosen."""

BRIEF_RUNS_NOTED: Final = 7
"""One of this many brief runs is recorded. Chosen: recording takes 0.02 ms, and up to 0.1 ms
between other work; of runs that come in pairs, a number that is odd records both kinds."""


class Executor:
    """Owns the GPU pipelines and the CPU pool of this process. Thread-safe.

    Plans that have no device in common run at the same time; each device works at one.

    Args:
        cache_dir: Folder of compiled kernels and compiled C.
        devices: Local GPUs, at the positions that plans name; empty for none. One that comes twice
            has two pipelines.
        cpu_threads: Threads of the CPU path; None for all usable cores.
        gpu_memory_bytes: Limit of GPU memory, of each GPU; None for all free memory.
        resident_share: Share of that memory in which operands may stay.
        lends_blas: Whether BLAS gets its threads back between products, for other code in the
            process.
        watchdog: Watches the progress of GPU parts; None for no watchdog.

    Attributes:
        residents: The operands that stay on the GPUs.
    """

    def __init__(
        self,
        *,
        cache_dir: Path,
        devices: Sequence[DeviceInfo] = (),
        cpu_threads: int | None = None,
        gpu_memory_bytes: int | None = None,
        resident_share: float = RESIDENT_SHARE,
        lends_blas: bool = False,
        watchdog: Watchdog | None = None,
    ) -> None:
        self.devices = tuple(devices)
        self._watchdog = watchdog
        self.pool = CpuPool(
            cpu_threads, cache_dir=cache_dir, yields=bool(devices), lends_blas=lends_blas
        )
        self.pipelines = tuple(
            GpuPipeline(
                device.index,
                cache_dir=cache_dir,
                gpu_memory_bytes=gpu_memory_bytes,
                resident_share=resident_share,
            )
            for device in devices
        )
        # Half of the threads, because the others copy.
        self._prefault = Prefault(max(1, self.pool.threads // 2))
        # Always the same thread: CUDA libraries create a handle for each thread, which is slow.
        self._gpu_threads = tuple(
            CallThreads(1, f"gpu-part-{position}") for position in range(len(self.devices))
        )
        self.residents = ResidentOperands(self.pipelines, self._gpu_threads, watchdog)
        self._gpu_alone = GpuAlone(self.pipelines, self._gpu_threads, watchdog)
        self._teams = Teams(self.pipelines)
        self._occupancy = Occupancy([CPU, *range(len(self.devices))])
        self._warm: set[tuple[KernelSpec | None, tuple[int, ...]]] = set()
        self._brief_runs = 0
        # The last plan that was prepared and noted. By identity: comparing kernels takes longer
        # than enqueueing one.
        self._prepared: Plan | None = None
        self._noted: Plan | None = None

    def __enter__(self) -> "Executor":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(
        self,
        plan: Plan,
        a: Matrix,
        b: Matrix,
        c: Matrix,
        *,
        alpha: float = 1.0,
        beta: float = 0.0,
        progress: Callable[[RowsDone], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
        final: Callable[[Sequence[range]], None] | None = None,
        timed: bool = False,
        b_key: str | None = None,
    ) -> Timings:
        """C ← αA·B + βC as the plan divides it.

        Args:
            plan: Made for this product.
            a: M x K, any strides.
            b: K x N, any strides.
            c: M x N, written in place; read only if `beta` is not 0.
            alpha: Factor of the product.
            beta: Factor of the old C.
            progress: Called with the finished rows of C, from any thread.
            cancelled: Polled while the product runs; True ends it. Only before it begins, if it is
                enqueued at once, or takes at most SHORT_SECONDS as predicted.
            final: Called with all rows of C that will not be written again, from any thread, when
                there are more. Some may be missing until the product ends.
            timed: Whether the GPU's copies and kernels are timed, which delays them a little.
            b_key: Key under which B is resident; None if the plan has it copied in.

        Raises:
            ProblemError: The arrays do not have the shapes and types of the plan's problem.
            ExecutionCancelled: `cancelled` returned True; C is incomplete.
            ExecutionError: A device failed; C is incomplete.
        """
        if plan.is_short and (plan.f or not (timed or b_key)):
            if cancelled is not None and cancelled():
                raise ExecutionCancelled("the execution was asked to stop")
            run = self._run_short if plan.f else self._run_recorded
            timings = run(plan, a, b, c, alpha=alpha, beta=beta)
            if timings is not None:
                _report_all(plan, progress, final)
                return timings
        check_operands(plan, a, b, c)
        product = PlannedProduct(
            plan, a, b, c, alpha, beta, progress, cancelled, final, timed, b_key
        )
        with self._occupancy.hold(plan.lane) as stay:
            if plan is not self._prepared:
                self._prepare(plan, c.dtype)
            started = time.perf_counter()
            staged = plan.gpu_rows > 0 and plan.problem.memory == "pageable"
            try:
                with self._prefault.make_pages(c) if staged else NOTHING:
                    gpus, cpu_seconds = self._compute(product)
            except BaseException as error:
                _raise_translated(error)
            total_seconds = time.perf_counter() - started
        timings = sum_up(plan, gpus, cpu_seconds, total_seconds)
        self._note_run(plan, timings, alone=stay.was_alone)
        return timings

    def _compute(self, product: PlannedProduct) -> tuple[list[GpuTimings], float]:
        """The times of each GPU part, and the CPU part's seconds."""
        if product.plan.is_gpu_alone:
            return [self._gpu_alone.compute(product)], 0.0
        return Execution(
            product, teams=self._teams, pool=self.pool, gpu_threads=self._gpu_threads,
            watchdog=self._watchdog,
        ).compute()  # fmt: skip

    @property
    def pipeline(self) -> GpuPipeline | None:
        """The first GPU's pipeline; None without a GPU."""
        return self.pipelines[0] if self.pipelines else None

    def _prepare(self, plan: Plan, dtype: np.dtype[Any]) -> None:
        """Compile and load what a plan runs for the first time, outside the product's time."""
        problem = plan.problem
        if plan.f and dtype in NATIVE_DTYPES and can_share(problem.m, problem.n, problem.k):
            self.pool.prepare()
        if plan.spec is not None and (plan.spec, plan.positions) not in self._warm:
            try:
                for part in plan.gpu_parts:
                    self.pipelines[part.position].load(plan.spec, sms=plan.sms)
            except KernelsError as error:
                _raise_translated(error)
        self._prepared = plan

    def _note_run(self, plan: Plan, timings: Timings, *, alone: bool) -> None:
        """Record the time of each part of a product that ran alone.

        A kernel's first run, which loads it, and most brief products are not recorded.
        """
        if plan.predicted.total_seconds < BRIEF_SECONDS:
            self._brief_runs += 1
            alone = alone and self._brief_runs % BRIEF_RUNS_NOTED == 0
        if plan is not self._noted and (run := (plan.spec, plan.positions)) not in self._warm:
            self._warm.add(run)
        elif alone:
            for correction, predicted_seconds, seconds in compare_with_plan(plan, timings):
                plan.profile.corrections.note(correction.run_class, predicted_seconds, seconds)
        self._noted = plan

    def _run_short(
        self, plan: Plan, a: Matrix, b: Matrix, c: Matrix, *, alpha: float, beta: float
    ) -> Timings:
        """Compute a short product on the CPU with as little Python as possible.

        Between other work the caches hold none of that code, and each call costs some µs.
        """
        started = time.perf_counter()
        check_operands(plan, a, b, c)
        try:
            if plan.is_small:
                self.pool.multiply_alone(a, b, c, alpha, beta)
                alone = self._occupancy.is_empty
            else:
                with self._occupancy.hold(plan.lane) as stay:
                    if not self.pool.native and plan is not self._prepared:
                        self._prepare(plan, c.dtype)
                    started = time.perf_counter()
                    self.pool.multiply(a, b, c, alpha=alpha, beta=beta)
                alone = stay.was_alone
        except CpuError as error:
            _raise_translated(error)
        seconds = time.perf_counter() - started
        timings = Timings(0.0, 0.0, 0.0, seconds, seconds, plan.f)
        self._note_run(plan, timings, alone=alone)
        return timings

    def _run_recorded(
        self, plan: Plan, a: Matrix, b: Matrix, c: Matrix, *, alpha: float, beta: float
    ) -> Timings | None:
        """Compute a short product whose commands a GPU has recorded; None if it has not."""
        recorded = self._gpu_alone.find_recorded(plan, alpha, beta)
        if recorded is None:
            return None
        watchdog = self._watchdog
        with self._occupancy.hold(plan.lane) as stay:
            started = time.perf_counter()
            try:
                with watchdog.watch(plan.predicted.total_seconds) if watchdog else NOTHING:
                    if not recorded.run(a, b, c):
                        return None
            except BaseException as error:
                _raise_translated(error)
            seconds = time.perf_counter() - started
        part_seconds = ((plan.gpu_parts[0].position, seconds),)
        timings = Timings(None, None, seconds, 0.0, seconds, 0, part_seconds)
        self._note_run(plan, timings, alone=stay.was_alone)
        return timings

    def close(self) -> None:
        """End the threads, and free streams and memory."""
        for thread in self._gpu_threads:
            thread.close()
        self._prefault.close()
        self._teams.close()
        for pipeline in self.pipelines:
            pipeline.close()
        self.pool.close()


def _report_all(
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


def _raise_translated(cause: BaseException) -> NoReturn:
    """Raise the scheduler's error for an error of kernels/ or cpu/."""
    if isinstance(cause, CANCELLATIONS):
        raise ExecutionCancelled("the execution was asked to stop") from cause
    if isinstance(cause, KernelsError | CpuError):
        poisoned = isinstance(cause, DeviceFailure) and cause.poisoned
        raise ExecutionError(str(cause), poisoned=poisoned) from cause
    raise cause
