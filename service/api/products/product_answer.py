"""What both forms of POST /v1/matmul share: the caller, its options, and the answer's headers."""

from collections.abc import Mapping
from typing import Any

from starlette.types import Receive

from wavetrim.scheduler.engine.messages import RunRequest
from wavetrim.scheduler.options import NO_OPTIONS
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.service.engine.engine import Engine
from wavetrim.service.jobs.plans import read_problem
from wavetrim.service.telemetry.metrics import PARTS


async def await_leaving(receive: Receive) -> None:
    """Return when the caller has left; its body must have been received."""
    while (await receive())["type"] != "http.disconnect":
        pass


def check_options(engine: Engine, request: RunRequest) -> None:
    """Refuse options that cannot be met for a product on this machine.

    Raises:
        FieldError: An option cannot be met.
    """
    if request.options is not NO_OPTIONS and engine.cpu_threads is not None:
        choose_plan(read_problem(request), engine.profiles.find(), request.options)


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
