"""One run of the engine: finds a request's matrices, plans the product, computes and checks it."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from wavetrim.cpu.products import scale
from wavetrim.scheduler.check.checked import EngineProduct, compute_checked
from wavetrim.scheduler.engine.arena import MappedSlabs
from wavetrim.scheduler.engine.messages import RunRequest
from wavetrim.scheduler.engine.operands import open_product
from wavetrim.scheduler.engine.residents import ResidentChoice
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
from wavetrim.scheduler.planning.lanes import CPU, Lane
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.problem import GemmProblem, Memory
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
    residents: ResidentChoice | None = None,
) -> dict[str, Any]:
    """Compute out ← alpha A·B + beta C in the request's memory.

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
        residents: Decides whether B stays on the GPUs; None if none does.

    Returns:
        The message `succeeded` without the job's id. Without reports it has `describe_choice` of
        the plan, not all of it. `b_on` are the positions of the GPUs that have a stored B now.

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
        open_product(request, slabs), request, executor, profile,
        plans=plans, lane=request.lane, residents=residents, b_key=_find_b_key(request),
        planned=planned, progress=progress, final=final, changes=changes, cancelled=cancelled,
        timed=request.timed,
    )  # fmt: skip


class ProductOptions(Protocol):
    """How a product is to be computed."""

    @property
    def options(self) -> PlanOptions:
        """Options of the plan."""

    @property
    def verify(self) -> bool:
        """Whether the product is checked."""

    @property
    def cpu_only(self) -> bool:
        """Whether the CPU computes all rows, whatever the options."""

    @property
    def reports(self) -> bool:
        """Whether the answer has all of the plan."""


def run_product(
    product: EngineProduct,
    request: ProductOptions,
    executor: Executor,
    profile: MachineProfile,
    *,
    plans: PlanCache,
    cancelled: Callable[[], bool],
    residents: ResidentChoice | None,
    b_key: str | None,
    lane: Lane | None = None,
    planned: Callable[[Mapping[str, Any]], None] | None = None,
    progress: Callable[[RowsDone], None] | None = None,
    final: Callable[[Sequence[range]], None] | None = None,
    changes: Callable[[], None] | None = None,
    timed: bool = False,
) -> dict[str, Any]:
    """As `run_request`, for matrices that are open; `b_key` is a key of B, None for none."""
    options = NO_OPTIONS if request.cpu_only else request.options
    if not (product.out.size and product.b.size):
        m, k, n = product.out.shape[0], *product.b.shape
        problem = GemmProblem(m, n, k, product.out.dtype.name, may_be_empty=True)
        plan = plans.choose(problem, profile, options)
        return _fill_empty(product, {**describe_plan(plan), "f": m}, planned, cancelled)
    planner = _Planner(product, bool(executor.devices), profile, plans, options, lane)
    plan = planner.choose(residents, b_key)
    resident_key = b_key if plan.problem.b_resident else None
    described = describe_plan(plan) if request.reports else describe_choice(plan)
    if planned is not None:
        planned(described)
    if product.c is not None:
        fill_rows(product.out, product.c, cancelled)
    verification = None
    if request.verify:
        uses_gpu = planner.has_gpu and not request.cpu_only
        timings, verification = compute_checked(
            product, plan, executor, choose_gpu_plan=planner.choose_gpu if uses_gpu else None,
            changes=changes, progress=progress, cancelled=cancelled, final=final,
            b_key=resident_key,
        )  # fmt: skip
    else:
        timings = executor.run(
            plan, product.a, product.b, product.out, alpha=product.alpha, beta=product.beta,
            progress=progress, cancelled=cancelled, final=final,
            timed=request.reports or timed, b_key=resident_key,
        )  # fmt: skip
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
    timings = Timings(None, None, 0.0, seconds, seconds, f_actual=described["f"])
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
    lane: Lane | None

    def choose(self, residents: ResidentChoice | None, b_key: str | None) -> Plan:
        """The plan of the product, with B resident if that pays."""
        profile, options, lane = self.profile, self.options, self.lane
        problem = self._describe(self.product.out.shape[0])
        if residents is not None and b_key is not None and profile.gpus:
            resident = self._describe(problem.m, b_resident=True)
            if residents.make_resident(
                b_key, self.product.b, problem, resident,
                profile=profile, options=options, lane=lane,
            ):  # fmt: skip
                problem = resident
        return self.plans.choose(problem, profile, options, lane)

    def choose_gpu(self, rows: int) -> Plan:
        """The plan of some rows of the product on GPUs alone."""
        gpus = None if self.lane is None else self.lane - {CPU}
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
    as_stored = isinstance(b.slab, int) and b.dtype == request.out.dtype
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
