"""One run of the engine: finds a request's matrices, plans the product, computes and checks it."""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from wavetrim.native.element_types import find_dtype
from wavetrim.scheduler.check.checked import EngineProduct, compute_checked
from wavetrim.scheduler.engine.arena import MappedSlabs
from wavetrim.scheduler.engine.messages import Operand, RunRequest
from wavetrim.scheduler.engine.residents import ResidentChoice
from wavetrim.scheduler.errors import (
    ExecutionCancelled,
    ExecutionError,
    FieldError,
    SlabError,
    VerificationFailed,
)
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.execution.rows_done import RowsDone
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
        the plan, not all of it. `b_on` are the positions of the GPUs on which a stored B is now.

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
        """What is not left to the planner."""

    @property
    def verify(self) -> bool:
        """Whether the product is checked."""

    @property
    def cpu_only(self) -> bool:
        """Leave the GPU alone, whatever the options say."""

    @property
    def reports(self) -> bool:
        """Whether the answer tells all of the plan."""


def run_product(
    product: EngineProduct,
    request: ProductOptions,
    executor: Executor,
    profile: MachineProfile,
    *,
    plans: PlanCache,
    cancelled: Callable[[], bool],
    lane: Lane | None = None,
    residents: ResidentChoice | None = None,
    b_key: str | None = None,
    planned: Callable[[Mapping[str, Any]], None] | None = None,
    progress: Callable[[RowsDone], None] | None = None,
    final: Callable[[Sequence[range]], None] | None = None,
    changes: Callable[[], None] | None = None,
    timed: bool = False,
) -> dict[str, Any]:
    """As `run_request`, for matrices that are at hand; `b_key` stands for B, None for no key."""

    def describe(rows: int, *, b_resident: bool = False) -> GemmProblem:
        pinned = executor.devices and product.is_pinned(b_resident=b_resident)
        memory: Memory = "pinned" if pinned else "pageable"
        k, n = product.b.shape
        return GemmProblem(rows, n, k, product.out.dtype.name, memory, b_resident)

    def choose_gpu_plan(rows: int) -> Plan:
        gpus = None if lane is None else lane - {CPU}
        return plans.choose(describe(rows), profile, replace(options, f=0), gpus or None)

    options = NO_OPTIONS if request.cpu_only else request.options
    problem = describe(product.out.shape[0])
    if residents is not None and b_key is not None and profile.gpus:
        resident = describe(problem.m, b_resident=True)
        if residents.make_resident(
            b_key, product.b, problem, resident, profile=profile, options=options, lane=lane
        ):
            problem = resident
    plan = plans.choose_next(problem, profile, options, lane)
    resident_key = b_key if problem.b_resident else None
    described = describe_plan(plan) if request.reports else describe_choice(plan)
    if planned is not None:
        planned(described)
    if product.c is not None:
        fill_rows(product.out, product.c, cancelled)
    verification = None
    if request.verify:
        has_gpu = bool(executor.devices) and not request.cpu_only
        timings, verification = compute_checked(
            product, plan, executor,
            choose_gpu_plan=choose_gpu_plan if has_gpu else None,
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


def _find_b_key(request: RunRequest) -> str | None:
    """What stands for B as the devices read it; None if B may be another one next time.

    A B of another element type is converted. A file may be changed by others, while the bytes of a
    stored matrix in a slab were checked when they came there, and only the service writes there.
    """
    b = request.b
    as_stored = isinstance(b.slab, int) and b.dtype == request.out.dtype
    return request.b_key if as_stored else None


def open_product(request: RunRequest, slabs: MappedSlabs | None) -> EngineProduct:
    """Find a request's matrices, and convert operands of other element types."""
    out = open_operand(request.out, slabs, writable=True)
    alpha, beta = request.alpha, request.beta
    named = (request.a, request.b, request.c if beta != 0 else None)
    operands = [None if one is None else open_operand(one, slabs) for one in named]
    a, b, c = (one if one is None else one.astype(out.dtype, copy=False) for one in operands)
    assert a is not None
    assert b is not None
    if np.issubdtype(out.dtype, np.integer):
        alpha, beta = int(alpha), int(beta)
    return EngineProduct(a, b, c, out, alpha, beta)


def open_operand(operand: Operand, slabs: MappedSlabs | None, *, writable: bool = False) -> Matrix:
    """The matrix of an operand. Links are not followed.

    Raises:
        OSError: The file does not exist, is a link or a pipe, or cannot be opened.
        ValueError: The file is shorter than the matrix.
        SlabError: The slab does not exist, or the matrix does not lie within it.
    """
    if not isinstance(operand.slab, str):
        assert slabs is not None, "slabs are named where there are some"
        return slabs.locate(
            operand.slab, operand.offset_bytes, operand.rows, operand.columns, operand.dtype,
            strides_bytes=operand.strides_bytes, fortran_order=operand.fortran_order,
            writable=writable,
        )  # fmt: skip
    if operand.strides_bytes is not None:
        raise SlabError("strides_bytes", operand.strides_bytes, "left out for a matrix in a file")
    flags = (os.O_RDWR if writable else os.O_RDONLY) | os.O_NOFOLLOW | os.O_CLOEXEC
    # Without O_NONBLOCK, opening a pipe would wait for its other end. A pipe cannot be mapped.
    opened = os.open(operand.slab, flags | os.O_NONBLOCK)
    with os.fdopen(opened, "r+b" if writable else "rb") as file:
        return np.memmap(
            file,
            dtype=find_dtype(operand.dtype),
            mode="r+" if writable else "r",
            offset=operand.offset_bytes,
            shape=(operand.rows, operand.columns),
            order="F" if operand.fortran_order else "C",
        )


def describe_failure(error: Exception) -> dict[str, Any]:
    """The message of a run that ended with an error.

    A second try may succeed, the last on the CPU alone, unless the request itself is wrong.
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
    """Copy C into the result, which `executor.run` reads and overwrites, in blocks of rows.

    Raises:
        ExecutionCancelled: `cancelled` returned True between two blocks.
    """
    step = max(1, _FILL_BYTES // out.strides[0])
    for start in range(0, out.shape[0], step):
        if cancelled():
            raise ExecutionCancelled("cancelled while C was copied")
        np.copyto(out[start : start + step], c[start : start + step])
