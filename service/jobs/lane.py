"""The order in which products reach the engine: by priority, then by age.

There is one lane: a plan may use every device of the machine, so two products at once would only
slow each other down. Jobs and products in one call wait in it alike. A few small products are sent
ahead, so that the engine has the next one when it is done with one, without a message in between.
"""

import asyncio
import heapq
import itertools
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from wavetrim.scheduler.engine.messages import FINAL_TYPES, RunRequest
from wavetrim.service.engine.engine import Engine
from wavetrim.service.engine.supervisor import Event
from wavetrim.service.storage.room import Room, RoomHold

logger = logging.getLogger(__name__)

SMALL_OPERATIONS: Final = 1e8
"""A product of at most so many operations is small: milliseconds on any machine."""

AHEAD: Final = 8
"""So many small products may be with the engine at once."""

STOP_GRACE_SECONDS: Final = 5.0
"""How long the engine may take to stop a product before it is killed."""


class Turn:
    """One product's way through the lane.

    Attributes:
        request: The product.
        rooms: The memory that it lies in.
        final: Becomes the engine's final message; "cancelled" if it was given up before its turn.
        begun: Becomes done when the product is sent to the engine, or given up.
        waited_seconds: How long it has waited for that.
    """

    __slots__ = (
        "_entered", "begun", "final", "holds", "is_small", "on_event", "request", "rooms",
        "waited_seconds",
    )  # fmt: skip

    def __init__(
        self,
        request: RunRequest,
        rooms: Sequence[Room],
        on_event: Callable[[Event], None] | None,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.request = request
        self.rooms = rooms
        self.holds: list[RoomHold] = []
        self._entered = time.perf_counter()
        self.waited_seconds = 0.0
        self.on_event = on_event
        self.final: asyncio.Future[Event] = loop.create_future()
        self.begun: asyncio.Future[None] = loop.create_future()
        operations = 2 * request.out.rows * request.out.columns * request.a.columns
        self.is_small = operations <= SMALL_OPERATIONS

    def begin(self) -> None:
        """The product is about to be sent, or was given up."""
        self.waited_seconds = time.perf_counter() - self._entered
        _settle(self.begun, None)


class Lane:
    """Lets products wait for the engine and hands them over in order.

    To be used from one event loop.

    Args:
        engine: Computes them.

    Attributes:
        waiting: How many products wait.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._waiting: list[tuple[int, float, int, Turn]] = []
        self._numbers = itertools.count()
        self._running: dict[str, Turn] = {}
        self._large = 0
        self.waiting = 0

    @property
    def running(self) -> int:
        """How many products the engine has."""
        return len(self._running)

    def enter(
        self,
        request: RunRequest,
        rooms: Sequence[Room] = (),
        *,
        since: float,
        priority: int = 0,
        on_event: Callable[[Event], None] | None = None,
    ) -> Turn:
        """Let a product wait for its turn; it may begin at once.

        Args:
            request: The product; its id is not in the lane yet.
            rooms: The memory that it lies in: the engine holds it until it has answered or is
                gone, whoever still waits for the product.
            since: When its caller began to wait, UTC seconds: the older one goes first.
            priority: The higher one goes first.
            on_event: Receives the engine's messages before the final one.
        """
        turn = Turn(request, rooms, on_event)
        self.waiting += 1
        heapq.heappush(self._waiting, (-priority, since, next(self._numbers), turn))
        self.advance()
        return turn

    def advance(self) -> None:
        """Send what may be sent: called whenever the engine or a product's turn has changed."""
        while self._waiting and self._engine.ready and self._has_room(self._waiting[0][3]):
            turn = heapq.heappop(self._waiting)[3]
            if turn.begun.done():
                continue  # it was given up
            self._start(turn)

    async def stop(self, turn: Turn) -> None:
        """Stop a product: by not sending it, by asking the engine, at last by ending that.

        When this returns, the product has its final message.
        """
        self.give_up(turn)
        if turn.final.done():
            return
        self._engine.cancel(turn.request.job)
        await asyncio.wait({turn.final}, timeout=STOP_GRACE_SECONDS)
        if not turn.final.done():
            reason = f"it did not stop a product within {STOP_GRACE_SECONDS:g} s"
            await self._engine.restart(reason)
            await asyncio.wait({turn.final}, timeout=STOP_GRACE_SECONDS)

    def give_up(self, turn: Turn) -> None:
        """Leave a product out that waits; one that was sent to the engine goes on."""
        if not turn.begun.done():
            self._give_up(turn)

    async def wait_idle(self) -> None:
        """Wait until the engine has no product."""
        while self._running:
            await asyncio.wait({turn.final for turn in self._running.values()})

    def _has_room(self, turn: Turn) -> bool:
        if not self._running:
            return True
        return turn.is_small and self._large == 0 and len(self._running) < AHEAD

    def _start(self, turn: Turn) -> None:
        self._running[turn.request.job] = turn
        self._large += not turn.is_small
        self.waiting -= 1
        turn.holds = [room.hold("engine") for room in turn.rooms]
        turn.begin()
        self._engine.start_run(turn.request.as_message(), lambda event: self._take(turn, event))

    def _take(self, turn: Turn, event: Event) -> None:
        if event["type"] not in FINAL_TYPES:
            if turn.on_event is not None:
                turn.on_event(event)
            return
        for hold in turn.holds:
            hold.release()
        del self._running[turn.request.job]
        self._large -= not turn.is_small
        _settle(turn.final, event)
        self.advance()

    def _give_up(self, turn: Turn) -> None:
        self.waiting -= 1
        turn.begin()
        _settle(turn.final, {"type": "cancelled", "job": turn.request.job})


def _settle(future: asyncio.Future[Any], result: Any) -> None:
    """Give a future its result, unless who waited for it was cancelled."""
    if not future.done():
        future.set_result(result)


def describe_timeout(limit_seconds: float, *, has_gpu: bool, job: str) -> Event:
    """The final message of a product that was stopped at its deadline."""
    return {
        "type": "failed",
        "job": job,
        "kind": "timeout",
        "message": f"the product took longer than {limit_seconds:g} s (job_timeout_seconds)",
        "retryable": has_gpu,  # a GPU may hang where the CPU does not; the CPU is only slow
    }
