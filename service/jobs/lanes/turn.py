"""One product's way through queue and lane."""

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from wavetrim.scheduler.engine.messages import Message, RunRequest
from wavetrim.scheduler.options import NO_OPTIONS
from wavetrim.service.jobs.past import find_kind
from wavetrim.service.storage.memory.extent import Extent, Hold

if TYPE_CHECKING:
    from wavetrim.service.jobs.lanes.load import EngineRun
    from wavetrim.service.jobs.queue import Queue


class Turn:
    """One product's way through queue and lane.

    A job has its turn from when it is accepted. Until its matrices are in memory it is not *ready*:
    its request then tells their shapes, not where they lie.

    Args:
        request: The product.
        caller: Whose it is.
        since: When its caller began to wait, UTC seconds.
        predicted_seconds: How long it should take.
        priority: The higher one goes first within its caller.

    Attributes:
        request: The product.
        rooms: The memory that it lies in.
        holds: Keep that memory while an engine has the product.
        on_wanted: Called when it would begin now if it were ready.
        on_begin: Called when the product is sent to an engine.
        on_message: Receives the engine's messages before the final one.
        on_slow: Called now and then while it waits and runs, unless it is quick.
        until: When it is stopped for its deadline, by `time.perf_counter`.
        queue: Where it waits; None if it does not.
        is_ready: Whether it can be sent.
        final: Becomes the engine's final message; "cancelled" if it was given up before its turn.
        has_left: Whether it waits no more, since it was sent to an engine or given up.
        stopped: Why it was stopped; None if nobody has stopped it.
        entered_at: When it began to wait, by `time.perf_counter`.
        waited_seconds: How long it has waited for that, and for its devices if they were busy.
        kind: Its kind, by which seconds are learned.
        sent_at: When it was sent to an engine, UTC seconds; None before.
        begun_at: When devices began with it; None before, and if that is not told.
        ended_at: When it ended.
        is_small: Whether it takes an engine only milliseconds.
        losses: How many nodes were lost while they had it.
        is_being_estimated: Whether a thread is finding how long the engines would take.
        begins_at: When all its devices should be free, by the monotonic clock; later products do
            not delay it. None before that is known.
        run: The product at its engine; None before it was sent.
    """

    __slots__ = (
        "begins_at", "begun_at", "caller", "ended_at", "entered_at", "final", "has_left", "holds",
        "is_being_estimated", "is_ready", "is_small", "kind", "losses", "on_begin", "on_message",
        "on_slow", "on_wanted", "predicted_seconds", "priority", "queue", "request", "rooms", "run",
        "sent_at", "since", "stopped", "until", "waited_seconds",
    )  # fmt: skip

    def __init__(
        self,
        request: RunRequest,
        *,
        caller: str = "",
        since: float = 0.0,
        predicted_seconds: float = 0.0,
        priority: int = 0,
    ) -> None:
        self.request = request
        self.caller = caller
        self.since = since
        self.predicted_seconds = predicted_seconds
        self.priority = priority
        self.rooms: Sequence[Extent] = ()
        self.holds: list[Hold] = []
        self.entered_at = time.perf_counter()
        self.waited_seconds = 0.0
        out, devices = request.out, request.options.devices
        self.kind = find_kind(out.rows, out.columns, request.a.columns, out.dtype, devices)
        self.sent_at: float | None = None
        self.begun_at: float | None = None
        self.ended_at: float | None = None
        self.on_wanted: Callable[[], None] = _do_nothing
        self.on_begin: Callable[[], None] = _do_nothing
        self.on_message: Callable[[Message], None] = _ignore
        self.on_slow: Callable[[], None] = _do_nothing
        self.until = math.inf
        self.queue: Queue | None = None
        self.is_ready = False
        self.final: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self.has_left = False
        self.stopped: str | None = None
        self.is_small = request.is_small
        self.losses = 0
        self.is_being_estimated = False
        self.begins_at: float | None = None
        self.run: EngineRun | None = None

    @property
    def needs_no_device(self) -> bool:
        """Whether the engine's main thread computes it, even while its devices are busy."""
        request = self.request
        return request.options == NO_OPTIONS and self.is_small and request.needs_one_thread

    def make_ready(self, request: RunRequest, rooms: Sequence[Extent]) -> None:
        """Its matrices lie in memory now.

        Args:
            request: The product, with their places; its id is not in the lane yet.
            rooms: The memory that they lie in. It is held for the engine until that has answered or
                is gone, even if nobody waits for the product any more.
        """
        self.request, self.rooms, self.is_ready = request, rooms, True
        self.entered_at = time.perf_counter()

    def change_priority(self, priority: int) -> None:
        """It goes before or after others of its caller from now on."""
        queue = self.queue
        if queue is not None:
            queue.remove(self)
        self.priority = priority
        if queue is not None:
            queue.add(self)

    def repeat(self) -> "Turn":
        """Another turn of the product, for its next try."""
        return Turn(
            self.request, caller=self.caller, since=self.since,
            predicted_seconds=self.predicted_seconds, priority=self.priority,
        )  # fmt: skip

    def begin(self) -> None:
        """The product is about to be sent, or was given up."""
        self.note_wait()
        self.has_left = True

    def note_wait(self) -> None:
        """The product has waited until now."""
        self.waited_seconds = time.perf_counter() - self.entered_at


def _do_nothing() -> None:
    """Nobody wants to know."""


def _ignore(_message: Message) -> None:
    """Nobody wants to know."""


def resolve(future: asyncio.Future[Any], result: Any) -> None:
    """Give a future its result, unless it is done: whoever waited may have been cancelled."""
    if not future.done():
        future.set_result(result)
