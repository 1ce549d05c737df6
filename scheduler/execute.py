"""Runs a plan: the GPU's rows beside the CPU's rows, at the same time, into one C."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from cpu.errors import CpuError, ProductCancelled
from cpu.gemm import CpuPool
from kernels.device import DeviceInfo
from kernels.errors import DeviceFailure, KernelsError, PipelineCancelled
from kernels.pipeline import GpuPipeline, GpuTimings
from kernels.sharing import SharedRows
from scheduler.errors import ExecutionCancelled, ExecutionError, ProblemError
from scheduler.estimate import count_staging_threads, count_threads_beside_gpu
from scheduler.frontier import Frontier
from scheduler.pieces import Pieces
from scheduler.plan import Plan

Matrix = NDArray[Any]
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds of one execution.

    Attributes:
        kernel_seconds: The GPU's kernels, by events.
        transfer_seconds: The copies in and out, by events; they overlap the kernels.
        gpu_seconds: The GPU part from its first to its last event.
        cpu_seconds: The CPU part.
        total_seconds: From the start of both parts to the end of the longer one.
        f_actual: Rows that the CPU computed: the plan's F, unless the boundary moved.
    """

    kernel_seconds: float
    transfer_seconds: float
    gpu_seconds: float
    cpu_seconds: float
    total_seconds: float
    f_actual: int

    def as_dict(self) -> dict[str, float]:
        """JSON-ready copy."""
        return asdict(self)


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


class Executor:
    """Owns the GPU pipeline and the CPU pools of this process; runs one plan at a time.

    Args:
        cache_dir: Folder of compiled kernels.
        devices: Local GPUs; the first is used. Empty where there is none.
        cpu_threads: Threads of the CPU path; None for all usable cores.
        gpu_memory_bytes: GPU memory to stay within; None for what is free.
    """

    def __init__(
        self,
        *,
        cache_dir: Path,
        devices: Sequence[DeviceInfo] = (),
        cpu_threads: int | None = None,
        gpu_memory_bytes: int | None = None,
    ) -> None:
        self.devices = tuple(devices)
        self.pool = CpuPool(cpu_threads)
        self.pipeline = (
            GpuPipeline(
                devices[0].index,
                cache_dir=cache_dir,
                gpu_memory_bytes=gpu_memory_bytes,
                staging_threads=count_staging_threads(self.pool.threads),
            )
            if devices
            else None
        )
        # One thread for good: CUDA libraries keep a handle for each thread, which is slow to make.
        self._gpu_thread = ThreadPoolExecutor(1, thread_name_prefix="gpu-part")
        self._runs = threading.Lock()

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
        progress: Callable[[float], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> Timings:
        """C ← αA·B + βC as the plan divides it.

        Unless F was given, the boundary between the two parts moves: the GPU takes panels from the
        top and the CPU rows from the bottom until they meet.

        Args:
            plan: Made for this product.
            a: M x K, any strides.
            b: K x N, any strides.
            c: M x N, written in place; read only when `beta` is not 0.
            alpha: Factor of the product.
            beta: Factor of the C that is there.
            progress: Receives the finished share of C's rows, 0…1, from any thread.
            cancelled: Asked between pieces whether to stop.

        Raises:
            ProblemError: The arrays are not those of the plan's problem.
            ExecutionCancelled: `cancelled` said so; C is unfinished.
            ExecutionError: A device failed; C is unfinished.
        """
        _check_operands(plan, a, b, c)
        problem, split = plan.problem, plan.gpu_rows
        frontier = Frontier(problem.m, plan.f, _choose_pieces(plan))
        counter = RowCounter(problem.m, progress)
        threads = (
            count_threads_beside_gpu(self.pool.threads, problem.memory)
            if split
            else self.pool.threads
        )
        stop = threading.Event()

        def is_cancelled() -> bool:
            return stop.is_set() or (cancelled is not None and cancelled())

        def compute_gpu_rows() -> GpuTimings:
            assert self.pipeline is not None, "a plan leaves rows to a GPU only where one is"
            assert plan.spec is not None, "a plan with GPU rows names a kernel"
            shared = SharedRows(split, frontier.take_top) if frontier.moves else None
            mine = slice(0, problem.m if shared else split)
            return self.pipeline.multiply(
                plan.spec, a[mine], b, c[mine], alpha=alpha, beta=beta, sms=plan.sms,
                progress=counter.add, cancelled=is_cancelled, shared=shared,
            )  # fmt: skip

        def compute_cpu_rows() -> float:
            seconds = 0.0
            while rows := frontier.take_bottom(time.perf_counter() - start):
                mine = slice(rows.start, rows.stop)
                seconds += self.pool.multiply(
                    a[mine], b, c[mine], alpha=alpha, beta=beta, threads=threads,
                    progress=counter.add, cancelled=is_cancelled,
                )  # fmt: skip
            return seconds

        with self._runs:
            start = time.perf_counter()
            gpu, cpu_seconds = self._compute(plan, compute_gpu_rows, compute_cpu_rows, stop)
            total_seconds = time.perf_counter() - start
        return Timings(
            kernel_seconds=gpu.kernel_seconds,
            transfer_seconds=gpu.transfer_seconds,
            gpu_seconds=gpu.gpu_seconds,
            cpu_seconds=cpu_seconds,
            total_seconds=total_seconds,
            f_actual=frontier.f,
        )

    def _compute(
        self,
        plan: Plan,
        compute_gpu_rows: Callable[[], GpuTimings],
        compute_cpu_rows: Callable[[], float],
        stop: threading.Event,
    ) -> tuple[GpuTimings, float]:
        """Both parts at once; one by itself in the calling thread, which saves handing it over."""
        if plan.f and plan.gpu_rows:
            return _join(self._gpu_thread, compute_gpu_rows, compute_cpu_rows, stop)
        try:
            if plan.gpu_rows == 0:
                return GpuTimings(0.0, 0.0, 0.0), compute_cpu_rows()
            if plan.spec is not None and plan.spec.source is None:
                return self._gpu_thread.submit(compute_gpu_rows).result(), 0.0
            return compute_gpu_rows(), 0.0
        except BaseException as error:
            _raise_translated([error])

    def close(self) -> None:
        """Give back threads, streams and memory."""
        self._gpu_thread.shutdown()
        if self.pipeline is not None:
            self.pipeline.close()
        self.pool.close()


def _join(
    gpu_thread: ThreadPoolExecutor,
    compute_gpu_rows: Callable[[], GpuTimings],
    compute_cpu_rows: Callable[[], float],
    stop: threading.Event,
) -> tuple[GpuTimings, float]:
    """Run both parts at once; when one fails, stop the other and raise the first failure.

    Returns:
        The GPU part's timings and the CPU part's seconds.
    """

    def stop_other_on_failure(part: Callable[[], Result]) -> Result:
        try:
            return part()
        except BaseException:
            stop.set()
            raise

    gpu_part = gpu_thread.submit(stop_other_on_failure, compute_gpu_rows)
    failures: list[BaseException] = []
    cpu_seconds = 0.0
    try:
        cpu_seconds = stop_other_on_failure(compute_cpu_rows)
    except BaseException as error:
        failures.append(error)
    gpu_failure = gpu_part.exception()
    if gpu_failure is not None:
        failures.append(gpu_failure)
    if failures:
        _raise_translated(failures)
    return gpu_part.result(), cpu_seconds


def _choose_pieces(plan: Plan) -> Pieces | None:
    """How the CPU takes its rows, where the boundary may move."""
    if plan.pinned or plan.gpu_curve is None or not 0 < plan.f < plan.problem.m:
        return None
    seconds = plan.predicted.total_seconds
    return Pieces(plan.gpu_curve, plan.cpu_curve, plan.problem.m, seconds)


def _raise_translated(failures: list[BaseException]) -> NoReturn:
    """Raise what went wrong in the scheduler's words; a failure outranks the stop it caused."""
    cancellations = (ProductCancelled, PipelineCancelled)
    cause = next((error for error in failures if not isinstance(error, cancellations)), failures[0])
    if isinstance(cause, cancellations):
        raise ExecutionCancelled("the execution was asked to stop") from cause
    if isinstance(cause, KernelsError | CpuError):
        poisoned = isinstance(cause, DeviceFailure) and cause.poisoned
        raise ExecutionError(str(cause), poisoned=poisoned) from cause
    raise cause


def _check_operands(plan: Plan, a: Matrix, b: Matrix, c: Matrix) -> None:
    problem = plan.problem
    shapes = {
        "a": (a, (problem.m, problem.k)),
        "b": (b, (problem.k, problem.n)),
        "c": (c, (problem.m, problem.n)),
    }
    for name, (array, shape) in shapes.items():
        if array.shape != shape:
            raise ProblemError(f"shape of {name}", array.shape, f"{shape}, as planned")
        if array.dtype != np.dtype(problem.dtype):
            raise ProblemError(f"dtype of {name}", str(array.dtype), f"{problem.dtype}, as planned")
