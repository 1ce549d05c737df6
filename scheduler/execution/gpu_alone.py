"""Computes products on one GPU alone, in the calling thread: another would take 0.1 ms longer."""

import threading
from collections.abc import Sequence

from wavetrim.kernels.pipeline.host_product import GpuTimings
from wavetrim.kernels.pipeline.pipeline import GpuPipeline
from wavetrim.native.call_threads import CallThreads
from wavetrim.scheduler.execution.product import NOTHING, PlannedProduct
from wavetrim.scheduler.execution.rows_done import RowCounter
from wavetrim.scheduler.execution.watchdog import Watchdog


class _Caller(threading.local):
    """The GPUs that the calling thread has used."""

    def __init__(self) -> None:
        self.positions: set[int] = set()


class GpuAlone:
    """Computes all rows of a product on one of several GPUs. Thread-safe.

    cuBLAS creates a handle for each thread that uses it, which is slow. So a thread's first product
    by cuBLAS runs in the GPU's thread.
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

    def compute(self, product: PlannedProduct) -> GpuTimings:
        """Compute all rows."""
        spec, position = product.plan.spec, product.plan.gpu_parts[0].position
        assert spec is not None, "a plan with GPU rows names a kernel"
        if spec.is_cublas and position not in self._caller.positions:
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

        is_counted = counter is not None or (watchdog is not None and not plan.is_short)
        with watchdog.watch(plan.uncorrected.total_seconds) if watchdog else NOTHING as watched:
            return self._pipelines[position].multiply(
                plan.spec, product.a, product.b, product.c,
                cut=plan.gpu_parts[0].cut, alpha=product.alpha, beta=product.beta,
                progress=count_rows if is_counted else None,
                cancelled=product.cancelled, sms=plan.sms, timed=product.timed,
                final=None if final is None else lambda rows: final([rows]), b_key=product.b_key,
            )  # fmt: skip
