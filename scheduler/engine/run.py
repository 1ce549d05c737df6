"""One run of the engine: finds a request's matrices, plans the product, computes and checks it.

A stack is planned as one of its products.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wavetrim.cpu.products import scale
from wavetrim.scheduler.check.checked import compute_checked
from wavetrim.scheduler.engine.arena import MappedSlabs
from wavetrim.scheduler.engine.b_fetcher import BFetcher
from wavetrim.scheduler.engine.messages import RunRequest
from wavetrim.scheduler.engine.operands import open_product
from wavetrim.scheduler.engine.stack import Outcome, Progress, compute_stack
from wavetrim.scheduler.errors import (
    ExecutionCancelled,
    ExecutionError,
    FieldError,
    VerificationFailed,
)
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.execution.rows_done import RowsDone
from wavetrim.scheduler.execution.timings import Timings
from wavetrim.scheduler.options import NO_OPTIONS, PlanOptions
from wavetrim.scheduler.planning.cache import PlanCache
from wavetrim.scheduler.planning.description import describe_choice, describe_plan
from wavetrim.scheduler.planning.device_sets import CPU, DeviceSet
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.problem import GemmProblem, Memory
from wavetrim.scheduler.product import EngineProduct
from wavetrim.scheduler.profile.machine import MachineProfile

logger = logging.getLogger(__name__)

_FILL_BYTES: Final = 32 * 2**20
"""Part of C that is copied before `cancelled` is polled again; chosen."""

Matrix = NDArray[Any]


def run_request(
    request: RunRequest,
    executor: Executor,
    profile: MachineProfile,
    *,
    slabs: MappedSlabs | None,
    plans: PlanCache,
    planned: Callable[[Mapping[str, Any]], None] | None,
    progress: Callable[[RowsDone], None] | None,
    final: Callable[[Sequence[range]], None] | None,
    changes: Callable[[], None] | None,
    cancelled: Callable[[], bool],
    fetcher: BFetcher | None = None,
) -> dict[str, Any]:
    """Compute out ← alpha A·B + beta C in the request's memory, or that of a stack's products.

    Args:
        request: The product, its operands and its options.
        executor: Runs the plan.
        profile: Profile of the machine; that of its CPU if the request is for the CPU alone.
        slabs: Slabs of the arena; None if all operands are files.
        plans: Cache of plans.
        planned: Called with the plan's description before the product starts.
        progress: Called with the finished rows of C, from any thread.
        final: Called with the rows of `out` that are final so far, from any thread.
        changes: Called before final rows are computed again.
        cancelled: Polled while the product runs; True ends it.
        fetcher: Decides whether B stays on the GPUs; None if none does.

    Returns:
        The message `succeeded` without the job's id. Without reports it has `describe_choice` of
        the plan, not all of it. The plan of a stack is that of one product, with their number as
        `stack`; timings are sums. `b_on` are the positions of the GPUs that have a stored B now.

    Raises:
        FieldError: The request cannot be planned.
        VerificationFailed: The product is wrong, even when computed again.
        ExecutionCancelled: `cancelled` returned True.
        ExecutionError: A device failed.
        OSError: A file cannot be mapped.
    """
    if cancelled():
        raise ExecutionCancelled("cancelled before it began")
    return run_product(
        open_product(request, slabs), executor, profile,
        options=request.options, verify=request.verify, cpu_only=request.cpu_only,
        reports=request.reports,
        plans=plans, device_set=request.device_set, fetcher=fetcher, b_key=_find_b_key(request),
        planned=planned, progress=progress, final=final, changes=changes, cancelled=cancelled,
        timed=request.timed,
    )  # fmt: skip


def run_product(
    product: EngineProduct,
    executor: Executor,
    profile: MachineProfile,
    *,
    options: PlanOptions,
    verify: bool,
    cpu_only: bool,
    reports: bool,
    plans: PlanCache,
    cancelled: Callable[[], bool],
    fetcher: BFetcher | None,
    b_key: str | None,
    device_set: DeviceSet | None = None,
    planned: Callable[[Mapping[str, Any]], None] | None = None,
    progress: Callable[[RowsDone], None] | None = None,
    final: Callable[[Sequence[range]], None] | None = None,
    changes: Callable[[], None] | None = None,
    timed: bool = False,
) -> dict[str, Any]:
    """As `run_request`, for matrices that are open; `b_key` is a key of B, None for none."""
    if cpu_only:
        options = NO_OPTIONS
    is_stack = product.out.ndim > 2
    if not (product.out.size and product.b.size):
        m, (k, n) = product.out.shape[-2], product.b.shape[-2:]
        problem = GemmProblem(m, n, k, product.out.dtype.name, may_be_empty=True)
        plan = plans.choose(problem, profile, options)
        return _fill_empty(product, {**describe_plan(plan), "f": m}, planned, cancelled)
    first = product.take(0) if is_stack else product
    planner = _Planner(first, bool(executor.devices), profile, plans, options, device_set)
    plan = planner.choose(fetcher, b_key)
    resident_key = b_key if plan.problem.b_resident else None
    described = describe_plan(plan) if reports else describe_choice(plan)
    if is_stack:
        described["stack"] = product.products
    if planned is not None:
        planned(described)
    if product.c is not None:
        c = np.broadcast_to(product.c, product.out.shape) if is_stack else product.c
        fill_rows(product.out, c, cancelled)

    def compute(
        one: EngineProduct,
        progress: Progress | None,
        final: Callable[[Sequence[range]], None] | None = None,
    ) -> Outcome:
        if verify:
            uses_gpu = planner.has_gpu and not cpu_only
            return compute_checked(
                one, plan, executor, choose_gpu_plan=planner.choose_gpu if uses_gpu else None,
                changes=None if is_stack else changes, progress=progress, cancelled=cancelled,
                final=final, b_key=resident_key,
            )  # fmt: skip
        timings = executor.run(
            plan, one.a, one.b, one.out, alpha=one.alpha, beta=one.beta,
            progress=progress, cancelled=cancelled, final=final,
            timed=reports or timed, b_key=resident_key,
        )  # fmt: skip
        return timings, None

    if is_stack:
        timings, verification = compute_stack(
            product, plan, executor, compute_one=compute, verify=verify,
            progress=progress, final=final, cancelled=cancelled,
        )  # fmt: skip
    else:
        timings, verification = compute(product, progress, final)
    event: dict[str, Any] = {
        "type": "succeeded",
        "plan": described,
        "timings": timings.as_dict(),
        "verification": verification and verification.as_dict(),
    }
    if b_key is not None and profile.gpus:
        event["b_on"] = executor.residents.find_holders(b_key)
    return event


def _fill_empty(
    product: EngineProduct,
    described: dict[str, Any],
    planned: Callable[[Mapping[str, Any]], None] | None,
    cancelled: Callable[[], bool],
) -> dict[str, Any]:
    """A product without terms, βC: all of it is the CPU's."""
    began = time.perf_counter()
    if planned is not None:
        planned(described)
    if product.c is not None:
        fill_rows(product.out, product.c, cancelled)
    scale(product.out, product.beta)
    seconds = time.perf_counter() - began
    rows = described["f"] * product.products
    timings = Timings(None, None, 0.0, seconds, seconds, f_actual=rows)
    return {
        "type": "succeeded",
        "plan": described,
        "timings": timings.as_dict(),
        "verification": None,
    }


class _Planner(NamedTuple):
    """Plans one product on the machine of an executor."""

    product: EngineProduct
    has_gpu: bool
    profile: MachineProfile
    plans: PlanCache
    options: PlanOptions
    device_set: DeviceSet | None

    def choose(self, fetcher: BFetcher | None, b_key: str | None) -> Plan:
        """The plan of the product, with B resident if that pays."""
        profile, options, device_set = self.profile, self.options, self.device_set
        problem = self._describe(self.product.out.shape[0])
        if fetcher is not None and b_key is not None and profile.gpus:
            resident = self._describe(problem.m, b_resident=True)
            if fetcher.fetch_if_worth(
                b_key, self.product.b, problem, resident,
                profile=profile, options=options, device_set=device_set,
            ):  # fmt: skip
                problem = resident
        return self.plans.choose(problem, profile, options, device_set)

    def choose_gpu(self, rows: int) -> Plan:
        """The plan of some rows of the product on GPUs alone."""
        gpus = None if self.device_set is None else self.device_set - {CPU}
        options = replace(self.options, f=0)
        return self.plans.choose(self._describe(rows), self.profile, options, gpus or None)

    def _describe(self, rows: int, *, b_resident: bool = False) -> GemmProblem:
        pinned = self.has_gpu and self.product.is_pinned(b_resident=b_resident)
        memory: Memory = "pinned" if pinned else "pageable"
        k, n = self.product.b.shape
        return GemmProblem(rows, n, k, self.product.out.dtype.name, memory, b_resident)


def _find_b_key(request: RunRequest) -> str | None:
    """The key of B as the devices read it; None if B may have other bytes next time.

    A B of another element type is converted. Others may change a file, while a stored matrix in a
    slab was checked when it was written, and only the service writes there.
    """
    b = request.b
    as_stored = isinstance(b.slab, int) and b.dtype == request.out.dtype and b.stack is None
    return request.b_key if as_stored else None


def describe_failure(error: Exception) -> dict[str, Any]:
    """The message of a run that ended with an error.

    Another try may succeed, at last on the CPU alone, unless the request itself is wrong.
    """
    poisoned = False
    match error:
        case ExecutionCancelled():
            return {"type": "cancelled"}
        case FieldError():
            kind, text = "plan", str(error)
        case VerificationFailed():
            kind, text = "verification", str(error)
        case MemoryError():
            kind, text = "memory", f"not enough memory for the product: {error}"
        case ExecutionError():
            kind, text, poisoned = "device", str(error), error.poisoned
        case _:
            kind, text = "internal", f"{type(error).__name__} in the engine; see its log"
    if kind != "plan":
        logger.error("a run failed", exc_info=error)
    return {
        "type": "failed",
        "kind": kind,
        "message": text,
        "retryable": kind != "plan",
        "poisoned": poisoned,
    }


def fill_rows(out: Matrix, c: Matrix, cancelled: Callable[[], bool]) -> None:
    """Copy C into the result, which `executor.run` reads and overwrites, in blocks.

    Raises:
        ExecutionCancelled: `cancelled` returned True between two blocks.
    """
    if out.shape[0] == 1 or (out.shape[1] > 1 and out.strides[0] < out.strides[1]):
        out, c = out.T, c.T  # blocks of columns
    step = max(1, _FILL_BYTES // max(1, out.strides[0]))
    for start in range(0, out.shape[0], step):
        if cancelled():
            raise ExecutionCancelled("cancelled while C was copied")
        np.copyto(out[start : start + step], c[start : start + step])
