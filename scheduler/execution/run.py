"""One run of a plan in parts: what they share, and how they end together.

Each GPU has its range of rows, or its columns of all GPUs' rows.
"""

import threading
import time
from collections.abc import Callable
from functools import partial
from math import ceil
from typing import Final

from wavetrim.cpu.gemm import CpuPool
from wavetrim.kernels.errors import PipelineCancelled
from wavetrim.kernels.pipeline.host_product import GpuHooks, GpuTimings
from wavetrim.kernels.pipeline.team import Team, TeamPart
from wavetrim.scheduler.errors import CANCELLATIONS
from wavetrim.scheduler.execution.gpus import Gpus, PlannedProduct
from wavetrim.scheduler.execution.rows import RowReports
from wavetrim.scheduler.execution.watchdog import Watched
from wavetrim.scheduler.planning.plan import SHORT_SECONDS
from wavetrim.scheduler.planning.team import LONG_SECONDS

_THREADS_MARGIN: Final = 1.5
"""Threads of the CPU part, as a multiple of those that should end with the GPU part. Chosen: the
CPU part must not be the slower one."""


class Execution:
    """One run of a product in parts, or on the CPU alone."""

    def __init__(self, product: PlannedProduct, gpus: Gpus, pool: CpuPool) -> None:
        plan = product.plan
        self._product, self._plan = product, plan
        self._gpus, self._pool = gpus, pool
        self._parts = plan.gpu_parts
        self._reports = RowReports(plan.problem.m, product.hooks)
        self._stop = threading.Event()
        self._begun: list[threading.Event] = []

    def compute(self) -> tuple[list[GpuTimings], float]:
        """Compute all rows; returns the timings of each GPU part and the CPU part's seconds.

        All parts run at the same time; if one fails, the others are stopped and the failure is
        raised. A part's seconds are by the host's clock, from its start to its end, but those of a
        GPU part that was enqueued at once are by the GPU's.

        The CPU part runs in the calling thread: another one would take 0.1 ms longer, and more if
        its core is busy. It starts once the GPUs have work: waking its threads needs the
        interpreter's lock.
        """
        waits: list[Callable[[], list[GpuTimings]]] = []
        timings: list[GpuTimings] = []
        failures: list[BaseException] = []
        cpu_seconds = 0.0
        try:
            if self._parts:
                waits.extend(self._start_gpu_parts())
            if self._plan.f:
                for begun in self._begun:
                    begun.wait()
                cpu_seconds = self._compute_cpu_rows()
        except BaseException as error:
            self._stop.set()
            failures.append(error)
        for wait in waits:
            try:
                timings.extend(wait())
            except BaseException as error:
                failures.append(error)
        if failures:
            stops = [one for one in failures if isinstance(one, CANCELLATIONS)]
            raise next((one for one in failures if one not in stops), failures[0])
        return timings, cpu_seconds

    def _start_gpu_parts(self) -> list[Callable[[], list[GpuTimings]]]:
        """Start the GPUs; returns what waits for them.

        The calling thread enqueues the parts of a product under LONG_SECONDS if they then need
        nothing of the host: other threads would begin 0.1 ms later, and take the interpreter's lock
        for their reports. Staged copies always need the host.
        """
        plan, team = self._plan, self._gpus.find_team(self._plan)
        is_enqueued = plan.uncorrected.total_seconds < LONG_SECONDS or plan.exchanges
        if is_enqueued and plan.problem.memory == "pinned":
            finish = self._enqueue(team)
            if finish is not None:
                return [finish]
        self._begun = [threading.Event() for _ in self._parts]
        return [
            self._gpus.threads[planned.position].submit(self._compute_gpu_rows, number, part).result
            for number, (planned, part) in enumerate(zip(self._parts, team.parts, strict=True))
        ]

    def _enqueue(self, team: Team) -> Callable[[], list[GpuTimings]] | None:
        """Enqueue all GPU parts; returns what waits for them.

        They cannot be cancelled once they are enqueued.

        Returns:
            None if one of them needs the host meanwhile.
        """
        product = self._product
        if self._is_cancelled():
            raise PipelineCancelled("the product was cancelled before it began")
        hooks = []
        if product.hooks.progress is not None or product.hooks.final is not None:
            hooks = [self._open_hooks(number) for number in range(len(self._parts))]
        finish = team.enqueue(product.take_gpu_rows(), b_key=product.b_key, hooks=hooks)

        def wait() -> list[GpuTimings]:
            assert finish is not None, "the parts are enqueued"
            with self._gpus.watch(self._plan.uncorrected.total_seconds):
                return finish()

        return None if finish is None else wait

    def _compute_gpu_rows(self, number: int, part: TeamPart) -> list[GpuTimings]:
        """Compute a part in its GPU's thread."""
        begun = self._begun[number]
        started = time.perf_counter()
        try:
            with self._gpus.watch(self._plan.uncorrected.total_seconds) as watched:
                hooks = self._open_hooks(number, watched)
                hooks = hooks._replace(cancelled=self._is_cancelled, begun=begun.set)
                resident_b = part.pipeline.residents.use(self._product.b_key)
                rows = self._product.take_gpu_rows(hooks, resident_b)
                copiers = max(1, self._plan.copiers // len(self._parts))
                piece = part.take_from(rows)._replace(copiers=copiers)
                timings = part.pipeline.multiply(piece, part.cut)
        except BaseException:
            self._stop.set()
            raise
        finally:
            begun.set()
        return [timings._replace(gpu_seconds=time.perf_counter() - started)]

    def _open_hooks(self, number: int, watched: Watched | None = None) -> GpuHooks:
        """What a GPU part calls for its rows."""
        part = self._parts[number]
        share = len(part.columns) / self._plan.problem.n
        return self._reports.open_gpu(number, part.rows.start, share=share, watched=watched)

    def _count_threads(self) -> int:
        """Threads of the CPU part: enough to end with the GPU part. Other cores copy."""
        plan = self._plan
        if not plan.gpu_rows:
            return self._pool.threads
        share = plan.uncorrected.cpu_seconds / plan.uncorrected.gpu_seconds
        return max(1, min(plan.split_threads, ceil(_THREADS_MARGIN * share * plan.split_threads)))

    def _compute_cpu_rows(self) -> float:
        """Compute the last F rows of C; short ones are reported when they are done."""
        product, plan = self._product, self._plan
        rows = slice(plan.problem.m - plan.f, plan.problem.m)
        compute = partial(
            self._pool.multiply,
            product.a[rows], product.b, product.c[rows],
            alpha=product.alpha, beta=product.beta,
            threads=self._count_threads(),
        )  # fmt: skip
        report, final = partial(self._reports.add, "cpu"), self._reports.open_cpu(rows.start)
        try:
            if plan.uncorrected.cpu_seconds > SHORT_SECONDS:
                return compute(progress=report, cancelled=self._is_cancelled, final=final)
            seconds = compute()
        except BaseException:
            self._stop.set()
            raise
        report(plan.f)
        if final is not None:
            final([range(plan.f)])
        return seconds

    def _is_cancelled(self) -> bool:
        cancelled = self._product.hooks.cancelled
        return self._stop.is_set() or (cancelled is not None and cancelled())
