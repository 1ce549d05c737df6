"""The executor: owns the devices of a process, and runs plans on them."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from wavetrim.cpu.blocks import can_share
from wavetrim.cpu.gemm import CpuPool
from wavetrim.cpu.prepared import NATIVE_DTYPES
from wavetrim.kernels.device import DeviceInfo
from wavetrim.kernels.pipeline.straight import StraightProduct
from wavetrim.native.call_threads import CallThreads
from wavetrim.native.plain import Matrix
from wavetrim.scheduler.errors import raise_translated
from wavetrim.scheduler.execution.gpus import NOTHING, Gpus, PlannedProduct
from wavetrim.scheduler.execution.pages import make_pages
from wavetrim.scheduler.execution.rows import NO_HOOKS, Hooks, RowsDone
from wavetrim.scheduler.execution.run import Execution
from wavetrim.scheduler.execution.timings import RunNotes, Timings, sum_up
from wavetrim.scheduler.execution.watchdog import Watchdog
from wavetrim.scheduler.planning.device_sets import CPU, DeviceSet
from wavetrim.scheduler.planning.plan import Plan


class Executor:
    """Owns the GPUs and the CPU pool of this process. Thread-safe.

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
        devices: The GPUs.
        gpus: Their pipelines, and the B matrices that stay on them.
        pool: The CPU.
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
        self.pool = CpuPool(cpu_threads, cache_dir=cache_dir, lends_blas=lends_blas)
        self.gpus = Gpus(
            devices, cache_dir=cache_dir, memory_bytes=gpu_memory_bytes, watchdog=watchdog
        )
        # Half of the threads, because the others copy.
        self._prefault = CallThreads(max(1, self.pool.threads // 2), "prefault")
        # A product takes its devices in their order, so that none waits for another in a circle.
        self._locks = {device: threading.Lock() for device in (CPU, *range(len(self.devices)))}
        self._counting = threading.Lock()
        self._running = self._begun = 0
        self._notes = RunNotes()
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
        hooks: Hooks = NO_HOOKS,
        timed: bool = False,
        b_key: str | None = None,
    ) -> Timings:
        """C ← αA·B + βC as the plan divides it.

        Args:
            plan: Made for this product: for matrices of these shapes and this element type.
            a: M x K, any strides.
            b: K x N, any strides.
            c: M x N, written in place; read only if `beta` is not 0.
            alpha: Factor of the product.
            beta: Factor of the old C.
            hooks: What is called while the product runs.
            timed: Whether the GPU's copies and kernels are timed, which delays them a little.
            b_key: Key under which B is resident; None if the plan has it copied in.

        Raises:
            ExecutionCancelled: The hooks ended it; C is incomplete.
            ExecutionError: A device failed; C is incomplete.
        """
        straight = None
        if alpha != 0 and not (timed or b_key):
            straight = self.gpus.find_straight(plan, alpha, beta)
        if hooks is not NO_HOOKS and (straight is not None or plan.is_short):
            hooks.end_if_cancelled()
        timings: Timings | None = None
        try:
            if straight is not None:
                timings = self._run_straight(plan, straight, a, b, c)
            elif plan.is_small and not plan.gpu_rows:
                timings = self._run_small(plan, a, b, c, alpha=alpha, beta=beta)
            elif plan.is_short and not plan.f:
                product = PlannedProduct(plan, a, b, c, alpha, beta, timed=timed, b_key=b_key)
                timings = self._run(product)
            if timings is None:
                return self._run(PlannedProduct(plan, a, b, c, alpha, beta, hooks, timed, b_key))
        except BaseException as error:
            raise_translated(error)
        if hooks is not NO_HOOKS:
            _report_all(plan, hooks)
        return timings

    def note(self, plan: Plan, seconds: float) -> None:
        """Record the time of a product that one device computed alone, not by `run`."""
        self._notes.note(plan, Timings(None, None, 0.0, 0.0, seconds, plan.f), alone=True)

    # After other work the caches have none of this code, and each call costs some µs. So the two
    # kinds of small products without parts run with as little Python as possible. They are not
    # reported while they are computed, and cannot be stopped.

    def _run_small(
        self, plan: Plan, a: Matrix, b: Matrix, c: Matrix, *, alpha: float, beta: float
    ) -> Timings:
        """Compute a product on the CPU, in the calling thread."""
        started = time.perf_counter()
        self.pool.multiply_alone(a, b, c, alpha, beta)
        seconds = time.perf_counter() - started
        timings = Timings(0.0, 0.0, 0.0, seconds, seconds, plan.f)
        self._notes.note(plan, timings, alone=not self._running)
        return timings

    def _run_straight(
        self, plan: Plan, product: StraightProduct, a: Matrix, b: Matrix, c: Matrix
    ) -> Timings | None:
        """Compute a product by the straight path; None, with nothing done, if it cannot."""
        (part,) = plan.gpu_parts
        with self._acquire(plan.device_set) as is_alone:
            started = time.perf_counter()
            with self.gpus.watch(plan.uncorrected.total_seconds):
                if not product.run(a, b, c):
                    return None
            seconds = time.perf_counter() - started
            timings = Timings(None, None, seconds, 0.0, seconds, 0, ((part.position, seconds),))
            self._notes.note(plan, timings, alone=is_alone())
        return timings

    def _run(self, product: PlannedProduct) -> Timings:
        """Compute a product in its parts."""
        plan, c = product.plan, product.c
        with self._acquire(plan.device_set) as is_alone:
            if plan is not self._prepared:
                self._prepare(plan, c.dtype)
            started = time.perf_counter()
            staged = plan.gpu_rows > 0 and plan.problem.memory == "pageable"
            with make_pages(c, self._prefault) if staged else NOTHING:
                if plan.is_gpu_alone:
                    gpus, cpu_seconds = [self.gpus.compute_alone(product)], 0.0
                else:
                    gpus, cpu_seconds = Execution(product, self.gpus, self.pool).compute()
            timings = sum_up(plan, gpus, cpu_seconds, time.perf_counter() - started)
            self._notes.note(plan, timings, alone=is_alone())
        return timings

    def _prepare(self, plan: Plan, dtype: np.dtype[Any]) -> None:
        """Compile and load what a plan needs before its first run is timed."""
        problem = plan.problem
        if plan.f and dtype in NATIVE_DTYPES and can_share(problem.m, problem.n, problem.k):
            self.pool.prepare()
        if plan.spec is not None and not self._notes.has_run(plan):
            self.gpus.load(plan)
        self._prepared = plan

    @contextmanager
    def _acquire(self, devices: DeviceSet) -> Iterator[Callable[[], bool]]:
        """Acquire these devices for one product while the block runs; waits until they are free.

        The block gets a function that tells whether no other product has run until now. Others take
        bandwidth and cores, so a time measured beside them says little.
        """
        locks = [self._locks[device] for device in sorted(devices)]
        for lock in locks:
            lock.acquire()
        with self._counting:
            self._running += 1
            self._begun += 1
            began_alone, begun = self._running == 1, self._begun
        try:
            yield lambda: began_alone and self._begun == begun
        finally:
            with self._counting:
                self._running -= 1
            for lock in locks:
                lock.release()

    def free_devices(self) -> None:
        """Release all devices after an interrupt, which may have left some acquired.

        No product may run meanwhile.
        """
        self._running = 0
        for lock in self._locks.values():
            if lock.locked():
                lock.release()

    def close(self) -> None:
        """End the threads, and free streams and memory."""
        self._prefault.close()
        self.gpus.close()
        self.pool.close()


def _report_all(plan: Plan, hooks: Hooks) -> None:
    """Tell the caller of a short product that all of its rows are done."""
    m = plan.problem.m
    if hooks.progress is not None:
        hooks.progress(RowsDone(m, cpu=m) if plan.f else RowsDone(m, gpu=m))
    if hooks.final is not None:
        hooks.final([range(m)])
