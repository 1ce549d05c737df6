"""Computes requests for products."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from wavetrim.scheduler.engine.messages import Message, RunRequest
from wavetrim.service.api.products.product_answer import check_options
from wavetrim.service.api.products.request_memory import RequestMemory
from wavetrim.service.api.v2.placement import Placed, ReadInto, place_tensors
from wavetrim.service.api.v2.request import InferRequest
from wavetrim.service.api.v2.statistics import InferStatistics, Stopwatch
from wavetrim.service.engine.engine import Engine
from wavetrim.service.jobs.lanes.load import AHEAD
from wavetrim.service.jobs.products import Products
from wavetrim.service.storage.memory.room import Room, Rooms
from wavetrim.service.tenants.bytes_in_flight import BytesInFlight
from wavetrim.service.tenants.tenant import Tenant

AwaitLeaving = Callable[[], Awaitable[None]]
"""Returns when the caller has left."""


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


class Inference:
    """Brings tensors into memory, has their products computed and counts them.

    Args:
        products: Computes them.
        engine: Has the machine's profile.
        rooms: Where memory comes from.
        in_flight: Counts memory by tenant.
        limit_bytes: The largest tensor that is received or sent.

    Attributes:
        statistics: Counts requests by caller.
    """

    def __init__(
        self,
        products: Products,
        engine: Engine,
        rooms: Rooms,
        in_flight: BytesInFlight,
        *,
        limit_bytes: int,
    ) -> None:
        self._products = products
        self._engine = engine
        self._rooms = rooms
        self._in_flight = in_flight
        self._limit_bytes = limit_bytes
        self.statistics: Final = InferStatistics()

    @property
    def ready(self) -> bool:
        """Whether the engine takes products."""
        return self._engine.ready

    def check_admission(self) -> None:
        """Make sure that one more request may come, before any of its bytes are received.

        Raises:
            Draining: The service is stopping.
            QueueFull: As many products wait as may.
        """
        self._products.check_admission()

    async def place(
        self,
        request: InferRequest,
        tenant: Tenant,
        stack: AsyncExitStack,
        read_into: ReadInto,
    ) -> Placed:
        """Bring a request's tensors into memory, which the stack releases.

        Args:
            request: The request.
            tenant: Whose it is.
            stack: Releases the memory when it is closed.
            read_into: Reads the binary data.

        Raises:
            BodyTooLarge: A tensor or the result is too large.
            QuotaReached: The caller may not have as much at once.
            QuotaTooSmall: The request alone may not.
            StorageFull: There is no memory for them.
        """
        memory = RequestMemory(self._rooms, stack, partial(self._in_flight.take, tenant))
        return await place_tensors(request, memory, read_into, limit_bytes=self._limit_bytes)

    async def compute(
        self, placed: Placed, await_leaving: AwaitLeaving, stopwatch: Stopwatch
    ) -> Computed:
        """Compute a request's products.

        Raises:
            FieldError: An option cannot be met for this product on this machine.
            ClientDisconnect: The caller has left; the products were stopped.
            Draining: The service stops before a product has begun.
            JobFailed: A product cannot be computed.
        """
        stack, began = placed.request.stack, time.perf_counter()
        runs, rooms = placed.list_runs(), placed.rooms
        first = next(runs)
        check_options(self._engine, first)
        message: Message = await self._products.compute(first, rooms, await_leaving)
        if stack.products > 1:
            rest = await self._compute_rest(runs, rooms, await_leaving, stack.products)
            message = _sum_messages([message, *rest])
        stopwatch.products = stack.products
        stopwatch.queue = message["queue_seconds"]
        stopwatch.compute_infer = max(0.0, time.perf_counter() - began - stopwatch.queue)
        return Computed(placed, message)

    async def _compute_rest(
        self,
        runs: Iterator[RunRequest],
        rooms: Sequence[Room],
        await_leaving: AwaitLeaving,
        products: int,
    ) -> list[Message]:
        """Compute products, `AHEAD` at a time as the engine may have them; an error stops all."""
        messages: list[Message] = []

        async def work() -> None:
            for run in runs:  # all tasks share this iterator
                message = await self._products.compute(run, rooms, await_leaving)
                messages.append(message)
                await asyncio.sleep(0)  # inline products would not let the event loop run

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(AHEAD, products - 1)):
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
