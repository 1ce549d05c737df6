"""A product in one call, in whatever form it comes: asked of the engine, and described."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from starlette.types import Receive

from wavetrim.scheduler.engine.messages import Operand, RunRequest
from wavetrim.scheduler.options import NO_OPTIONS, PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.service.api.calls import Call
from wavetrim.service.jobs.operands import Shaped, fold
from wavetrim.service.jobs.plans import read_problem
from wavetrim.service.storage.memory.extent import Extent
from wavetrim.service.storage.memory.request_memory import Piece, RequestMemory
from wavetrim.service.telemetry.metrics import PARTS


def open_memory(call: Call) -> RequestMemory:
    """Memory for the operands and the result of a call, counted against its caller's quota."""
    parts = call.parts
    take = partial(parts.in_flight.take, call.tenant)
    return RequestMemory(parts.arena, parts.matrices.folder, take)


def describe_operand(piece: Piece, matrix: Shaped, *, fortran_order: bool = False) -> Operand:
    """A matrix in memory, as the engine finds it."""
    return Operand(
        piece.slab, piece.offset_bytes, matrix.rows, matrix.columns, matrix.dtype,
        fortran_order, stack=matrix.stack,
    )  # fmt: skip


def make_request(
    operands: Sequence[Operand],
    out: Operand,
    *,
    alpha: float,
    beta: float,
    options: PlanOptions,
    verify: bool,
) -> RunRequest:
    """A product for the engine.

    Args:
        operands: A, B and, if beta is not 0, C.
        out: The result.
        alpha: Factor of A·B.
        beta: Factor of C.
        options: For the planner.
        verify: Whether it is checked.
    """
    a, b, *rest = operands
    c = rest[0] if rest else None
    return fold(
        RunRequest(
            job="", a=a, b=b, c=c, out=out, alpha=alpha, beta=beta, options=options,
            verify=verify, reports=False,
        )
    )  # fmt: skip


async def compute(
    call: Call,
    request: RunRequest,
    extents: Sequence[Extent],
    *,
    priority: int = 0,
    until: float | None = None,
) -> Mapping[str, Any]:
    """Compute the product of a call whose body has been received; a caller that leaves stops it.

    Args:
        call: The call.
        request: The product.
        extents: The memory that it lies in.
        priority: That of the product, as jobs have it.
        until: When it must have been computed, by `time.perf_counter`; None for any time.

    Returns:
        The engine's message of success.

    Raises:
        FieldError: An option cannot be met on this machine.
        JobFailed, Draining, ClientDisconnect: As `Products.compute`.
    """
    parts = call.parts
    if request.options is not NO_OPTIONS and parts.engine.cpu_threads is not None:
        choose_plan(read_problem(request), parts.engine.profiles.find(), request.options)
    leaving = partial(_await_leaving, call.receive)
    return await parts.products.compute(
        request, extents, leaving, caller=call.tenant.name, priority=priority, until=until
    )


async def _await_leaving(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def describe_product(message: Mapping[str, Any]) -> list[tuple[bytes, bytes]]:
    """The headers that say how the product was computed."""
    plan = message["plan"]
    timings = {**message["timings"], "queue_seconds": message["queue_seconds"]}
    shown = [
        f"{part};dur={seconds * 1e3:.3f}"
        for part in (*PARTS, "queue")
        if (seconds := timings.get(f"{part}_seconds")) is not None
    ]
    headers = [
        (b"server-timing", ", ".join(shown).encode()),
        (b"wavetrim-f", b"%d" % (plan.get("stack", 1) * plan["f"])),
        (b"wavetrim-f-actual", b"%d" % timings["f_actual"]),
    ]
    if plan["accuracy"] is not None:
        headers.append((b"wavetrim-accuracy", plan["accuracy"].encode()))
    return headers
