"""Computes products on one GPU alone, in the calling thread: another would take 0.1 ms longer."""

import threading
from collections.abc import Sequence

from wavetrim.kernels.pipeline.host_product import GpuTimings
from wavetrim.kernels.pipeline.pipeline import GpuPipeline
from wavetrim.kernels.pipeline.recorded_product import RecordedProduct
from wavetrim.native.call_threads import CallThreads
from wavetrim.scheduler.execution.kept import KeptByPlan
from wavetrim.scheduler.execution.product import NOTHING, PlannedProduct
from wavetrim.scheduler.execution.rows_done import RowCounter
from wavetrim.scheduler.execution.watchdog import Watchdog
from wavetrim.scheduler.planning.plan import Plan


class _Caller(threading.local):
    """The GPUs that the calling thread has used."""

    def __init__(self) -> None:
        self.positions: set[int] = set()


class GpuAlone:
    """Computes all rows of a product on one of several GPUs. Thread-safe.

    cuBLAS creates a handle for each thread that uses it, which is slow. So a thread's first product
    by cuBLAS runs in the GPU's thread.

    Args:
        pipelines: The GPUs, at the positions that plans name.
        gpu_threads: A thread for each.
        watchdog: Watches the progress; None for no watchdog.
    """

    def __init__(
        self,
        pipelines: Sequence[GpuPipeline],
        gpu_threads: Sequence[CallThreads],
        watchdog: Watchdog | None,
    ) -> None:
        self._pipelines, self._gpu_threads = pipelines, gpu_threads
        self._watchdog = watchdog
        self._caller = _Caller()
        self._recorded = KeptByPlan[tuple[float, float, RecordedProduct | None]]()

    def find_recorded(self, plan: Plan, alpha: float, beta: float) -> RecordedProduct | None:
        """The recorded product of a plan that is run again; None the first time."""
        kept = self._recorded.find(plan)
        recorded = None
        if kept is not None:
            kept_alpha, kept_beta, recorded = kept
            if recorded is not None and alpha == kept_alpha and beta == kept_beta:
                return recorded
            recorded = self._record(plan, alpha, beta)
        self._recorded.keep(plan, (alpha, beta, recorded))
        return recorded

    def _record(self, plan: Plan, alpha: float, beta: float) -> RecordedProduct | None:
        (part,) = plan.gpu_parts
        pipeline = self._pipelines[part.position]
        if pipeline.direct is None or alpha == 0:  # then only C is scaled
            return None
        assert plan.spec is not None, "a plan with GPU rows names a kernel"
        problem = plan.problem
        return RecordedProduct(
            pipeline, plan.spec, (problem.m, problem.n, problem.k),
            cut=part.cut, alpha=alpha, beta=beta, sms=plan.sms,
        )  # fmt: skip

    def compute(self, product: PlannedProduct) -> GpuTimings:
        """Compute all rows."""
        spec, position = product.plan.spec, product.plan.gpu_parts[0].position
        assert spec is not None, "a plan with GPU rows names a kernel"
        if spec.source is None and position not in self._caller.positions:
            self._caller.positions.add(position)
            return self._gpu_threads[position].submit(self._multiply, product, position).result()
        return self._multiply(product, position)

    def _multiply(self, product: PlannedProduct, position: int) -> GpuTimings:
        plan, progress, final = product.plan, product.progress, product.final
        watchdog = self._watchdog
        assert plan.spec is not None, "a plan with GPU rows names a kernel"
        counter = RowCounter(plan.problem.m, progress) if progress is not None else None

        def count_rows(rows: float) -> None:
            if watched is not None:
                watched.note_progress()
            if counter is not None:
                counter.add("gpu", rows)

        with watchdog.watch(plan.predicted.total_seconds) if watchdog else NOTHING as watched:
            return self._pipelines[position].multiply(
                plan.spec, product.a, product.b, product.c,
                cut=plan.gpu_parts[0].cut, alpha=product.alpha, beta=product.beta,
                progress=count_rows if watchdog or counter else None,
                cancelled=product.cancelled, sms=plan.sms, timed=product.timed,
                final=None if final is None else lambda rows: final([rows]), b_key=product.b_key,
            )  # fmt: skip
