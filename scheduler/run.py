"""One run of the engine: a request's matrices mapped, planned, multiplied and checked."""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wavetrim.scheduler.description import describe_plan
from wavetrim.scheduler.errors import (
    ExecutionCancelled,
    ExecutionError,
    FieldError,
    VerificationFailed,
)
from wavetrim.scheduler.execute import Executor
from wavetrim.scheduler.machine import MachineProfile
from wavetrim.scheduler.messages import RunRequest
from wavetrim.scheduler.pages import prepare_pages
from wavetrim.scheduler.plan import Plan, choose_plan
from wavetrim.scheduler.problem import GemmProblem
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
    planned: Callable[[Mapping[str, Any]], None],
    progress: Callable[[float], None],
    cancelled: Callable[[], bool],
) -> dict[str, Any]:
    """Compute out ← alpha A·B + beta C in the request's files.

    Args:
        request: The product, its files and its wishes.
        executor: Runs the plan.
        profile: The machine to plan with; its CPU when the request is for the CPU alone.
        planned: Receives the plan's description before the product starts.
        progress: Receives the finished share, 0…1, from any thread.
        cancelled: Asked between pieces whether to stop.

    Returns:
        The message of success, without the job's id. Its timings are the executor's and
        `map_seconds`, what the pages of the mapped files took before the product, while the plan
        was chosen.

    Raises:
        FieldError: The request cannot be planned.
        VerificationFailed: The product is wrong.
        ExecutionCancelled: `cancelled` said so.
        ExecutionError: A device failed.
        OSError: A file cannot be mapped.
    """
    a, b = request.a.map(), request.b.map()
    c = request.c.map() if request.c is not None and request.beta != 0 else None
    out = request.out.map(writable=True)
    operands = (a, b) if c is None else (a, b, c)
    with prepare_pages(out, operands, threads=executor.pool.threads) as pages:
        plan = plan_request(request, profile)
        described = describe_plan(plan)
        planned(described)
    if c is not None:
        fill_rows(out, c, cancelled)
    alpha, beta = read_factors(request)
    timings = executor.run(
        plan, a, b, out, alpha=alpha, beta=beta, progress=progress, cancelled=cancelled
    )
    verification = check_product(request, a, b, c, out)
    return {
        "type": "succeeded",
        "plan": described,
        "timings": {"map_seconds": pages.seconds, **timings.as_dict()},
        "verification": verification and verification.as_dict(),
    }


def plan_request(request: RunRequest, profile: MachineProfile) -> Plan:
    """Choose the plan; a request for the CPU alone loses its wishes.

    Raises:
        FieldError: The request cannot be planned.
    """
    problem = GemmProblem(request.a.rows, request.b.columns, request.a.columns, request.a.dtype)
    return choose_plan(problem, profile, NO_WISHES if request.cpu_only else request.wishes)


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


def read_factors(request: RunRequest) -> tuple[float, float]:
    """Alpha and beta; whole numbers for integer matrices, whose products are exact."""
    if np.issubdtype(np.dtype(request.out.dtype), np.integer):
        return int(request.alpha), int(request.beta)
    return request.alpha, request.beta


def check_product(
    request: RunRequest, a: Matrix, b: Matrix, c: Matrix | None, out: Matrix
) -> Verification | None:
    """Check the product where the request asks for it.

    Raises:
        VerificationFailed: It is wrong.
    """
    if not request.verify:
        return None
    alpha, beta = read_factors(request)
    verification = verify_product(a, b, c, out, alpha=alpha, beta=beta)
    verification.require()
    return verification
