"""Tries of products, those of jobs and those in one call: each ends by itself or is stopped.

A try is stopped when its caller leaves or cancels it, or when it takes too long. One timer looks at
all tries, since a timer for each would cost a small one 10 µs; quick ones end before it looks.
"""

import asyncio
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from wavetrim.service.engine.engine import Engine
from wavetrim.service.jobs.lanes.engine_queue import EngineQueue
from wavetrim.service.jobs.lanes.turn import Turn

LOOK_SECONDS: Final = 0.05
"""Time between two looks at tries, and the age from which they are looked at; chosen."""


@dataclass(slots=True, eq=False)
class _Try:
    """A try. Times are those of `time.perf_counter`.

    Attributes:
        turn: The product.
        until: When it is stopped for its deadline.
        on_slow: Called at each look at it.
        entered_at: When it began to wait.
        sent_at: When it was first seen to be at an engine.
    """

    turn: Turn
    until: float
    on_slow: Callable[[], None]
    entered_at: float
    sent_at: float | None = None


class Attempts:
    """Has products tried by the engines. To be used from one event loop.

    Args:
        engines: Where they wait for the engines.
        engine: This machine's.
        timeout_seconds: How long an engine may have one.
    """

    def __init__(self, engines: EngineQueue, engine: Engine, timeout_seconds: float) -> None:
        self._engines, self._engine = engines, engine
        self._timeout_seconds = timeout_seconds
        self._tries: set[_Try] = set()
        self._stopping: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def turns(self) -> Iterator[Turn]:
        """The products that are being tried."""
        return (one.turn for one in self._tries)

    async def run(
        self, turn: Turn, *, on_slow: Callable[[], None], until: float = math.inf
    ) -> Mapping[str, Any]:
        """Let a product wait for an engine, and return its final message.

        Args:
            turn: The product, which is ready.
            on_slow: Called now and then, unless it is quick.
            until: When it is stopped for its deadline, by `time.perf_counter`.

        Returns:
            The engine's message; "cancelled" for one that was stopped (`Turn.stopped` says why),
            but "failed" for one that has timed out.
        """
        self._engines.enter(turn)
        one = _Try(turn, until, on_slow, time.perf_counter())
        self._tries.add(one)
        self._look_later()
        try:
            message = await turn.final
        except asyncio.CancelledError:
            self._engines.cancel(turn)
            raise
        finally:
            self._tries.discard(one)
        if message["type"] == "succeeded" or turn.stopped is None:
            return message
        if turn.stopped == "timeout":
            return self._describe_timeout(turn.request.job)
        return {"type": "cancelled"}

    def stop(self, turn: Turn, reason: str) -> None:
        """Stop a product, wherever it is: it has its final message soon.

        Args:
            turn: The product.
            reason: Why; the first one counts.
        """
        turn.stopped = turn.stopped or reason
        self._engines.give_up(turn)
        if turn.has_left and not turn.final.done():
            task = asyncio.create_task(self._engines.stop(turn), name="stop")
            self._stopping.add(task)
            task.add_done_callback(self._stopping.discard)

    def _look_later(self) -> None:
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        """Look at the tries that are slow."""
        self._timer, now = None, time.perf_counter()
        for one in tuple(self._tries):
            if now - one.entered_at < LOOK_SECONDS or one.turn.stopped is not None:
                continue
            if one.sent_at is None and one.turn.sent_at is not None:
                one.sent_at = now
            if now >= one.until:
                self.stop(one.turn, "deadline")
            elif one.sent_at is not None and now - one.sent_at >= self._timeout_seconds:
                self.stop(one.turn, "timeout")
            else:
                one.on_slow()
        if self._tries:
            self._look_later()

    def _describe_timeout(self, job: str) -> Mapping[str, Any]:
        limit = f"{self._timeout_seconds:g} s (job_timeout_seconds)"
        return {
            "type": "failed",
            "job": job,
            "kind": "timeout",
            "message": f"the product took longer than {limit}",
            # a GPU may hang where the CPU does not; the CPU is only slow
            "retryable": bool(self._engine.devices),
        }
