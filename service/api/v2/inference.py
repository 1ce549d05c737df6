"""Computes requests for products."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.types import Receive

from wavetrim.scheduler.engine.messages import Message, RunRequest
from wavetrim.service.api.products.product_answer import await_leaving, check_options
from wavetrim.service.api.v2.placement import Placed
from wavetrim.service.api.v2.statistics import Stopwatch
from wavetrim.service.engine.engine import Engine
from wavetrim.service.jobs.lanes.load import AHEAD
from wavetrim.service.jobs.products import Products


@dataclass(frozen=True, slots=True)
class Computed:
    """Products that were computed.

    Attributes:
        placed: The request, and where its result lies.
        message: The engine's message of success; for a stack, with sums over its products.
    """

    placed: Placed
    message: Message

    @property
    def parameters(self) -> dict[str, Any]:
        """How they were computed, as parameters of the answer."""
        plan, f_actual = self.message["plan"], self.message["timings"]["f_actual"]
        found = {"f": plan["f"], "f_actual": f_actual, "kernel": plan["kernel"]}
        return {name: value for name, value in found.items() if value is not None}


async def compute_products(
    placed: Placed, products: Products, engine: Engine, receive: Receive, stopwatch: Stopwatch
) -> Computed:
    """Compute a request's products.

    Args:
        placed: The request, and where its tensors lie.
        products: Computes one at a time.
        engine: Has the machine's profile.
        receive: The request's ASGI channel; its body has been received.
        stopwatch: Gets the seconds.

    Raises:
        FieldError: An option cannot be met for this product on this machine.
        ClientDisconnect: The caller has left; the products were stopped.
        Draining: The service stops before a product has begun.
        JobFailed: A product cannot be computed.
    """
    stack, began = placed.request.stack, time.perf_counter()
    runs, rooms = placed.list_runs(), placed.rooms
    first = next(runs)
    check_options(engine, first)
    leaving = partial(await_leaving, receive)
    message: Message = await products.compute(first, rooms, leaving)
    if stack.products > 1:
        rest = await _compute_rest(
            runs, stack.products - 1, lambda run: products.compute(run, rooms, leaving)
        )
        message = _sum_messages([message, *rest])
    stopwatch.products = stack.products
    stopwatch.queue = message["queue_seconds"]
    stopwatch.compute_infer = max(0.0, time.perf_counter() - began - stopwatch.queue)
    return Computed(placed, message)


async def _compute_rest(
    runs: Iterator[RunRequest],
    count: int,
    compute: Callable[[RunRequest], Coroutine[Any, Any, Message]],
) -> list[Message]:
    """Compute products, `AHEAD` at a time as the engine may have them; an error stops all."""
    messages: list[Message] = []

    async def work() -> None:
        for run in runs:  # all tasks share this iterator
            messages.append(await compute(run))
            await asyncio.sleep(0)  # inline products would not let the event loop run

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(AHEAD, count)):
                group.create_task(work())
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return messages


def _sum_messages(messages: Sequence[Message]) -> Message:
    """One message for all products of a stack, with sums of seconds and rows."""
    timings: dict[str, Any] = {}
    for message in messages:
        for name, value in message["timings"].items():
            if isinstance(value, int | float):
                timings[name] = timings.get(name, 0) + value
    plan = {**messages[0]["plan"], "f": sum(message["plan"]["f"] for message in messages)}
    queued_seconds = sum(message["queue_seconds"] for message in messages)
    queue_seconds = queued_seconds / min(AHEAD, len(messages))
    return {**messages[0], "timings": timings, "plan": plan, "queue_seconds": queue_seconds}
