"""One run of the engine: a request's matrices found, planned, multiplied and checked."""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wavetrim.kernels.pinned import is_pinned
from wavetrim.scheduler.arena import MappedSlabs
from wavetrim.scheduler.description import describe_choice, describe_plan
from wavetrim.scheduler.errors import (
    ExecutionCancelled,
    ExecutionError,
    FieldError,
    SlabError,
    VerificationFailed,
)
from wavetrim.scheduler.execute import Executor
from wavetrim.scheduler.machine import MachineProfile
from wavetrim.scheduler.messages import Operand, RunRequest
from wavetrim.scheduler.plan import Plan
from wavetrim.scheduler.plan_cache import PlanCache
from wavetrim.scheduler.problem import GemmProblem, Memory
from wavetrim.scheduler.verify import Verification, verify_product
from wavetrim.scheduler.wishes import NO_WISHES

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
    cancelled: Callable[[], bool],
) -> dict[str, Any]:
    """Compute out ← alpha A·B + beta C in the request's memory.

    Args:
        request: The product, its operands and its wishes.
        executor: Runs the plan.
        profile: The machine to plan with; its CPU when the request is for the CPU alone.
        slabs: Where operands lie that are in the arena; None where all are files.
        plans: The plans that were made before.
        planned: Receives the plan's description before the product starts.
        progress: Receives the finished share, 0…1, from any thread.
        final: Receives the rows of `out` that are final so far, from any thread.
        cancelled: Asked between pieces whether to stop.

    Returns:
        The message of success, without the job's id. A request without reports gets what
        `describe_choice` says of its plan.

    Raises:
        FieldError: The request cannot be planned.
        VerificationFailed: The product is wrong.
        ExecutionCancelled: `cancelled` said so.
        ExecutionError: A device failed.
        OSError: A file cannot be mapped.
    """
    if cancelled():
        raise ExecutionCancelled("cancelled before it began")
    product = _Product.open(request, slabs)
    plan = plan_product(request, product, executor, profile, plans)
    described = describe_plan(plan) if request.reports else describe_choice(plan)
    if planned is not None:
        planned(described)
    if product.c is not None:
        fill_rows(product.out, product.c, cancelled)
    timings = executor.run(
        plan, product.a, product.b, product.out,
        alpha=product.alpha, beta=product.beta, progress=progress, cancelled=cancelled,
        final=final,
    )  # fmt: skip
    verification = product.check() if request.verify else None
    return {
        "type": "succeeded",
        "plan": described,
        "timings": timings.as_dict(),
        "verification": verification and verification.as_dict(),
    }


@dataclass(frozen=True, slots=True)
class _Product:
    """The matrices and factors of a request, as NumPy has them.

    Attributes:
        a: M x K, of the result's element type.
        b: K x N, likewise.
        c: M x N, likewise; None where beta is 0.
        out: M x N.
        alpha: Factor of A·B; a whole number for integers, whose products are exact.
        beta: Factor of C, likewise.
    """

    a: Matrix
    b: Matrix
    c: Matrix | None
    out: Matrix
    alpha: float
    beta: float

    @classmethod
    def open(cls, request: RunRequest, slabs: MappedSlabs | None) -> "_Product":
        """Find the matrices, and convert operands that have another element type."""
        out = open_operand(request.out, slabs, writable=True)
        beta = request.beta
        named = (request.a, request.b, request.c if beta != 0 else None)
        operands = [None if one is None else open_operand(one, slabs) for one in named]
        a, b, c = (one if one is None else one.astype(out.dtype, copy=False) for one in operands)
        assert a is not None
        assert b is not None
        alpha = request.alpha
        if np.issubdtype(out.dtype, np.integer):
            alpha, beta = int(alpha), int(beta)
        return cls(a, b, c, out, alpha, beta)

    def is_pinned(self) -> bool:
        """Whether the GPU reads and writes all three matrices by itself."""
        return all(is_pinned(matrix) for matrix in (self.a, self.b, self.out))

    def check(self) -> Verification:
        """Check the product.

        Raises:
            VerificationFailed: It is wrong.
        """
        verification = verify_product(
            self.a, self.b, self.c, self.out, alpha=self.alpha, beta=self.beta
        )
        verification.require()
        return verification


def open_operand(operand: Operand, slabs: MappedSlabs | None, *, writable: bool = False) -> Matrix:
    """The elements of an operand, rows x columns. Links are not followed.

    Raises:
        OSError: The file is not there, is a link, or cannot be opened.
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
    with os.fdopen(os.open(operand.slab, flags), "r+b" if writable else "rb") as file:
        return np.memmap(
            file,
            dtype=np.dtype(operand.dtype),
            mode="r+" if writable else "r",
            offset=operand.offset_bytes,
            shape=(operand.rows, operand.columns),
            order="F" if operand.fortran_order else "C",
        )


def plan_product(
    request: RunRequest,
    product: _Product,
    executor: Executor,
    profile: MachineProfile,
    plans: PlanCache,
) -> Plan:
    """Choose the plan; a request for the CPU alone loses its wishes.

    Raises:
        FieldError: The request cannot be planned.
    """
    rows, columns = product.out.shape
    memory: Memory = "pinned" if executor.devices and product.is_pinned() else "pageable"
    problem = GemmProblem(rows, columns, request.a.columns, request.out.dtype, memory)
    return plans.choose(problem, profile, NO_WISHES if request.cpu_only else request.wishes)


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
