"""One run of the engine: a request's matrices found, planned, multiplied and checked."""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from wavetrim.scheduler.check.checked import EngineProduct, compute_checked
from wavetrim.scheduler.engine.arena import MappedSlabs
from wavetrim.scheduler.engine.messages import Operand, RunRequest
from wavetrim.scheduler.errors import (
    ExecutionCancelled,
    ExecutionError,
    FieldError,
    SlabError,
    VerificationFailed,
)
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.options import NO_OPTIONS, PlanOptions
from wavetrim.scheduler.planning.cache import PlanCache
from wavetrim.scheduler.planning.description import describe_choice, describe_plan
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.problem import GemmProblem, Memory
from wavetrim.scheduler.profile.machine import MachineProfile

logger = logging.getLogger(__name__)

_FILL_BYTES: Final = 32 * 2**20

Matrix = NDArray[Any]


def run_request(
    request: RunRequest,
    executor: Executor,
    profile: MachineProfile,
    *,
    slabs: MappedSlabs | None,
    plans: PlanCache,
    planned: Callable[[Mapping[str, Any]], None] | None,
    progress: Callable[[float], None] | None,
    final: Callable[[Sequence[range]], None] | None,
    changes: Callable[[], None] | None,
    cancelled: Callable[[], bool],
) -> dict[str, Any]:
    """Compute out ← alpha A·B + beta C in the request's memory.

    Args:
        request: The product, its operands and its options.
        executor: Runs the plan.
        profile: The machine to plan with; its CPU when the request is for the CPU alone.
        slabs: Where operands lie that are in the arena; None where all are files.
        plans: The plans that were made before.
        planned: Receives the plan's description before the product starts.
        progress: Receives the finished share, 0…1, from any thread.
        final: Receives the rows of `out` that are final so far, from any thread.
        changes: Called when rows that were final are to be computed again.
        cancelled: Asked between pieces whether to stop.

    Returns:
        The message of success, without the job's id. A request without reports gets what
        `describe_choice` says of its plan.

    Raises:
        FieldError: The request cannot be planned.
        VerificationFailed: The product is wrong, on either device.
        ExecutionCancelled: `cancelled` said so.
        ExecutionError: A device failed.
        OSError: A file cannot be mapped.
    """
    if cancelled():
        raise ExecutionCancelled("cancelled before it began")
    return run_product(
        open_product(request, slabs), request, executor, profile,
        plans=plans, planned=planned, progress=progress, final=final, changes=changes,
        cancelled=cancelled,
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
    planned: Callable[[Mapping[str, Any]], None] | None = None,
    progress: Callable[[float], None] | None = None,
    final: Callable[[Sequence[range]], None] | None = None,
    changes: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """As `run_request`, for matrices that are at hand."""

    def describe(rows: int) -> GemmProblem:
        memory: Memory = "pinned" if executor.devices and product.is_pinned() else "pageable"
        k, n = product.b.shape
        return GemmProblem(rows, n, k, product.out.dtype.name, memory)

    def choose_gpu_plan(rows: int) -> Plan:
        return plans.choose(describe(rows), profile, replace(options, f=0))

    options = NO_OPTIONS if request.cpu_only else request.options
    plan = plans.choose_next(describe(product.out.shape[0]), profile, options)
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
        )  # fmt: skip
    else:
        timings = executor.run(
            plan, product.a, product.b, product.out, alpha=product.alpha, beta=product.beta,
            progress=progress, cancelled=cancelled, final=final,
        )  # fmt: skip
    return {
        "type": "succeeded",
        "plan": described,
        "timings": timings.as_dict(),
        "verification": verification and verification.as_dict(),
    }


def open_product(request: RunRequest, slabs: MappedSlabs | None) -> EngineProduct:
    """Find a request's matrices, and convert operands that have another element type."""
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
    """The elements of an operand, rows x columns. Links are not followed.

    Raises:
        OSError: The file is not there, is a link or a pipe, or cannot be opened.
        ValueError: The file is shorter than the matrix.
        SlabError: There is no such slab, or the matrix does not lie within it.
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
    # Not blocking: to open a pipe would wait for its other end. No pipe can be mapped.
    opened = os.open(operand.slab, flags | os.O_NONBLOCK)
    with os.fdopen(opened, "r+b" if writable else "rb") as file:
        return np.memmap(
            file,
            dtype=np.dtype(operand.dtype),
            mode="r+" if writable else "r",
            offset=operand.offset_bytes,
            shape=(operand.rows, operand.columns),
            order="F" if operand.fortran_order else "C",
        )


def describe_failure(error: Exception) -> dict[str, Any]:
    """The message for a run that ended with an error.

    Everything but a wrong request may go better on the next try, at last on the CPU alone.
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
    """Copy C into the result in row blocks, where `executor.run` reads and overwrites it.

    Raises:
        ExecutionCancelled: `cancelled` said so between two blocks.
    """
    step = max(1, _FILL_BYTES // out.strides[0])
    for start in range(0, out.shape[0], step):
        if cancelled():
            raise ExecutionCancelled("cancelled while C was copied")
        np.copyto(out[start : start + step], c[start : start + step])
