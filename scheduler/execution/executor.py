"""The executor: owns the devices of a process, and runs plans on them."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wavetrim.cpu.gemm import CpuPool
from wavetrim.kernels.device import DeviceInfo
from wavetrim.kernels.errors import KernelsError
from wavetrim.kernels.pipeline.direct_path import DirectProduct
from wavetrim.kernels.pipeline.host_product import GpuTimings
from wavetrim.kernels.pipeline.pipeline import GpuPipeline
from wavetrim.kernels.pipeline.straight import StraightProduct
from wavetrim.native.call_threads import CallThreads
from wavetrim.scheduler.errors import ExecutionCancelled
from wavetrim.scheduler.execution.gpu_alone import GpuAlone
from wavetrim.scheduler.execution.gpu_residents import GpuResidents
from wavetrim.scheduler.execution.occupancy import Occupancy
from wavetrim.scheduler.execution.prefault import Prefault
from wavetrim.scheduler.execution.product import (
    NOTHING,
    Matrix,
    PlannedProduct,
    check_operands,
    prepare_cpu_part,
)
from wavetrim.scheduler.execution.rows_done import RowsDone
from wavetrim.scheduler.execution.run import Execution, raise_translated
from wavetrim.scheduler.execution.run_notes import RunNotes
from wavetrim.scheduler.execution.short_products import (
    ShortProducts,
    find_straight,
    report_all,
)
from wavetrim.scheduler.execution.teams import Teams
from wavetrim.scheduler.execution.timings import Timings, sum_up
from wavetrim.scheduler.execution.watchdog import Watchdog
from wavetrim.scheduler.planning.device_sets import CPU
from wavetrim.scheduler.planning.plan import Plan


class Executor:
    """Owns the GPU pipelines and the CPU pool of this process. Thread-safe.

    Plans that have no device in common run at the same time; each device works at one.

    Args:
        cache_dir: Folder of compiled kernels and compiled C.
        devices: Local GPUs, at the positions that plans name; empty for none. One that comes twice
            has two pipelines.
        cpu_threads: Threads of the CPU path; None for `count_default_threads()`.
        gpu_memory_bytes: Limit of GPU memory, of each GPU; None for all free memory.
        lends_blas: Whether BLAS gets its threads back between products, for other code in the
            process.
        watchdog: Watches the progress of GPU parts; None for no watchdog.

    Attributes:
        residents: The B matrices that stay on the GPUs.
    """

    def __init__(
        self,
        *,
        cache_dir: Path,
        devices: Sequence[DeviceInfo] = (),
        cpu_threads: int | None = None,
        gpu_memory_bytes: int | None = None,
        lends_blas: bool = False,
        watchdog: Watchdog | None = None,
    ) -> None:
        self.devices = tuple(devices)
        self._watchdog = watchdog
        self.pool = CpuPool(cpu_threads, cache_dir=cache_dir, lends_blas=lends_blas)
        self.pipelines = tuple(
            GpuPipeline(
                device.index,
                cache_dir=cache_dir,
                gpu_memory_bytes=gpu_memory_bytes,
            )
            for device in devices
        )
        # Half of the threads, because the others copy.
        self._prefault = Prefault(max(1, self.pool.threads // 2))
        # Always the same thread: CUDA libraries create a handle for each thread, which is slow.
        self._gpu_threads = tuple(
            CallThreads(1, f"gpu-part-{position}") for position in range(len(self.devices))
        )
        self.residents = GpuResidents(self.pipelines, self._gpu_threads, watchdog)
        self._gpu_alone = GpuAlone(self.pipelines, self._gpu_threads, watchdog)
        self._teams = Teams(self.pipelines)
        self._occupancy = Occupancy([CPU, *range(len(self.devices))])
        self._notes = RunNotes()
        self._shorts = ShortProducts(
            self.pool, self.pipelines, self._occupancy, self._notes, watchdog
        )
        # By identity: comparing kernels takes longer than enqueueing one.
        self._prepared: Plan | None = None

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
            cancelled: Polled while the product runs; True ends it. A product that is enqueued at
                once, or should take at most SHORT_SECONDS, is only ended before it begins.
            final: Called with all rows of C that will not be written again, whenever there are
                more, from any thread. Some may be missing until the product ends.
            timed: Whether the GPU's copies and kernels are timed, which delays them a little.
            b_key: Key under which B is resident; None if the plan has it copied in.

        Raises:
            ProblemError: The arrays do not have the shapes and types of the plan's problem.
            ExecutionCancelled: `cancelled` returned True; C is incomplete.
            ExecutionError: A device failed; C is incomplete.
        """
        is_straight = plan.is_straight and alpha != 0 and not (timed or b_key)
        if cancelled is not None and (is_straight or plan.is_short) and cancelled():
            raise ExecutionCancelled("the execution was asked to stop")
        timings: Timings | None = None
        if is_straight:
            timings = self._shorts.compute_straight(plan, a, b, c, alpha=alpha, beta=beta)
        elif plan.is_short and plan.f:
            timings = self._shorts.compute_on_cpu(plan, a, b, c, alpha=alpha, beta=beta)
        elif plan.is_short:
            product = PlannedProduct(plan, a, b, c, alpha, beta, timed=timed, b_key=b_key)
            timings = self._run(product)
        if timings is not None:
            report_all(plan, progress, final)
            return timings
        return self._run(
            PlannedProduct(plan, a, b, c, alpha, beta, progress, cancelled, final, timed, b_key)
        )

    def _run(self, product: PlannedProduct) -> Timings:
        """Compute a product in its parts."""
        plan, a, b, c = product.plan, product.a, product.b, product.c
        check_operands(plan, a, b, c)
        with self._occupancy.acquire(plan.device_set) as stay:
            if plan is not self._prepared:
                self._prepare(plan, c.dtype)
            started = time.perf_counter()
            staged = plan.gpu_rows > 0 and plan.problem.memory == "pageable"
            try:
                with self._prefault.make_pages(c) if staged else NOTHING:
                    gpus, cpu_seconds = self._compute(product)
            except BaseException as error:
                raise_translated(error)
            total_seconds = time.perf_counter() - started
        timings = sum_up(plan, gpus, cpu_seconds, total_seconds)
        self._notes.note(plan, timings, alone=stay.was_alone)
        return timings

    def _compute(self, product: PlannedProduct) -> tuple[list[GpuTimings], float]:
        """The times of each GPU part, and the CPU part's seconds."""
        if product.plan.is_gpu_alone:
            return [self._gpu_alone.compute(product)], 0.0
        return Execution(
            product, teams=self._teams, pool=self.pool, gpu_threads=self._gpu_threads,
            watchdog=self._watchdog,
        ).compute()  # fmt: skip

    def find_gpu_product(self, plan: Plan, alpha: float) -> StraightProduct | DirectProduct | None:
        """The product of a plan without the checks and notes that `run` makes.

        None where it needs the host meanwhile, other GPUs or the CPU, or takes long.
        """
        if plan.is_straight:
            return find_straight(plan, self.pipelines, alpha, beta=0.0)
        pipeline = self.pipelines[plan.gpu_parts[0].position] if plan.is_gpu_alone else None
        if pipeline is None or pipeline.direct is None or not plan.is_short or plan.sms is not None:
            return None
        assert plan.spec is not None, "a plan with GPU rows names a kernel"
        shape = plan.problem.m, plan.problem.n, plan.problem.k
        cut = plan.gpu_parts[0].cut
        return DirectProduct(pipeline, plan.spec, shape, cut, alpha=alpha, beta=0.0)

    @property
    def is_crowded(self) -> bool:
        """Whether other threads want the cores, as the latest products showed."""
        return self.pool.is_crowded or any(one.is_crowded for one in self.pipelines)

    def _prepare(self, plan: Plan, dtype: np.dtype[Any]) -> None:
        """Compile and load what a plan needs before its first run is timed."""
        prepare_cpu_part(self.pool, plan, dtype)
        if plan.spec is not None and not self._notes.has_run(plan):
            try:
                for part in plan.gpu_parts:
                    self.pipelines[part.position].load(plan.spec, sms=plan.sms)
            except KernelsError as error:
                raise_translated(error)
        self._prepared = plan

    def compile(self, plan: Plan) -> None:
        """Compile a plan's kernel ahead of its first product, while others run.

        Raises:
            ExecutionError: It does not compile.
        """
        try:
            for part in plan.gpu_parts:
                assert plan.spec is not None, "a plan with GPU rows names a kernel"
                self.pipelines[part.position].compile(plan.spec, sms=plan.sms)
        except KernelsError as error:
            raise_translated(error)

    def free_devices(self) -> None:
        """Release all devices after an interrupt, which may have left some acquired.

        No product may run meanwhile.
        """
        self._occupancy.free()

    def close(self) -> None:
        """End the threads, and free streams and memory."""
        for thread in self._gpu_threads:
            thread.close()
        self._prefault.close()
        for pipeline in self.pipelines:
            pipeline.close()
        self.pool.close()
