"""One product's way through the lane."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from wavetrim.scheduler.engine.messages import Message, RunRequest
from wavetrim.scheduler.options import NO_OPTIONS
from wavetrim.service.storage.memory.room import Room, RoomHold


class Turn:
    """One product's way through the lane.

    Attributes:
        request: The product.
        rooms: The memory that it lies in.
        holds: Keep that memory while an engine has the product.
        on_message: Receives the engine's messages before the final one.
        order: Minus its priority, since when its caller waits, and a running number.
        final: Becomes the engine's final message; "cancelled" if it was given up before its turn.
        begun: Becomes done when the product is sent to the engine, or given up.
        waited_seconds: How long it has waited for that, and for its devices if they were busy.
        is_small: Whether it takes an engine only milliseconds.
        losses: How many nodes were lost while they had it.
        is_being_estimated: Whether a thread is finding how long the engines would take.
        begins_at: When all its devices should be free, by the monotonic clock; later products do
            not delay it. None before that is known.
        cancel: Asks the engine that has it to stop.
        restart_engine: Ends that engine by force.
    """

    __slots__ = (
        "_entered", "begins_at", "begun", "cancel", "final", "holds", "is_being_estimated",
        "is_small", "losses", "on_message", "order", "request", "restart_engine", "rooms",
        "waited_seconds",
    )  # fmt: skip

    def __init__(
        self,
        request: RunRequest,
        rooms: Sequence[Room],
        on_message: Callable[[Message], None] | None,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.request = request
        self.rooms = rooms
        self.holds: list[RoomHold] = []
        self._entered = time.perf_counter()
        self.waited_seconds = 0.0
        self.on_message = on_message
        self.order: tuple[int, float, int] = (0, 0.0, 0)
        self.final: asyncio.Future[Message] = loop.create_future()
        self.begun: asyncio.Future[None] = loop.create_future()
        self.is_small = request.is_small
        self.losses = 0
        self.is_being_estimated = False
        self.begins_at: float | None = None
        self.cancel: Callable[[], None] = _do_nothing
        self.restart_engine: Callable[[str], Awaitable[None]] = _end_nothing

    @property
    def needs_no_device(self) -> bool:
        """Whether the engine's main thread computes it, even while its devices are busy."""
        request = self.request
        return request.options == NO_OPTIONS and self.is_small and request.needs_one_thread

    def begin(self) -> None:
        """The product is about to be sent, or was given up."""
        self.note_wait()
        resolve(self.begun, None)

    def note_wait(self) -> None:
        """The product has waited until now."""
        self.waited_seconds = time.perf_counter() - self._entered


def _do_nothing() -> None:
    """No engine has the product."""


async def _end_nothing(_reason: str) -> None:
    """No engine has the product."""


def resolve(future: asyncio.Future[Any], result: Any) -> None:
    """Give a future its result, unless it is done: whoever waited may have been cancelled."""
    if not future.done():
        future.set_result(result)


def describe_failure(error: Exception, *, job: str) -> Message:
    """The final message of a product whose time could not be estimated."""
    return {
        "type": "failed",
        "job": job,
        "kind": "engine",
        "message": f"it cannot be planned: {type(error).__name__}: {error}",
        "retryable": True,
    }


def describe_timeout(limit_seconds: float, *, has_gpu: bool, job: str) -> Message:
    """The final message of a product that was stopped at its deadline."""
    return {
        "type": "failed",
        "job": job,
        "kind": "timeout",
        "message": f"the product took longer than {limit_seconds:g} s (job_timeout_seconds)",
        "retryable": has_gpu,  # a GPU may hang where the CPU does not; the CPU is only slow
    }
