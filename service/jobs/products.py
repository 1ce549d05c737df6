"""Products in one call: computed while their callers wait, and not stored."""

import asyncio
import logging
import math
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from starlette.requests import ClientDisconnect

from wavetrim.scheduler.engine.messages import RunRequest
from wavetrim.service.clock import read_clock
from wavetrim.service.errors import Draining
from wavetrim.service.jobs.errors import JobFailed, QueueFull
from wavetrim.service.jobs.job import MOST_TRIES
from wavetrim.service.jobs.lanes.attempt import Attempt
from wavetrim.service.jobs.live import JobParts
from wavetrim.service.storage.memory.extent import Extent

logger = logging.getLogger(__name__)


class Products:
    """Computes the smallest products inline, and takes all others through the queue to the engine.

    To be used from one event loop.

    Args:
        parts: What they meet on their way, as jobs do.
    """

    def __init__(self, parts: JobParts) -> None:
        self._engines, self._inline, self._plans = parts.engines, parts.inline, parts.plans
        self._settings, self._metrics, self._traces = parts.settings, parts.metrics, parts.traces
        self._attempts: set[Attempt] = set()
        self._draining = False

    def check_admission(self, caller: str) -> None:
        """Make sure that one more product may come, before any of its bytes are received.

        Args:
            caller: Whose it would be.

        Raises:
            Draining: The service is stopping.
            QueueFull: As many of the caller's products wait as may.
        """
        if self._draining:
            raise Draining(self._settings.drain_seconds)
        waiting = sum(one.queue is not None and one.caller == caller for one in self._attempts)
        most = self._settings.max_queued_jobs
        if waiting >= most:
            raise QueueFull("waiting products", waiting + 1, most, 1)

    async def compute(
        self,
        request: RunRequest,
        extents: Sequence[Extent],
        await_leaving: Callable[[], Awaitable[None]],
        *,
        caller: str,
        priority: int = 0,
        until: float | None = None,
    ) -> Mapping[str, Any]:
        """Compute a product, with as many tries as a job has.

        Args:
            request: The product; its id is replaced.
            extents: The memory that it lies in.
            await_leaving: Returns when the caller has left; called only for a slow product.
            caller: Whose it is.
            priority: The higher one goes first within its caller.
            until: When it must have been computed, by `time.perf_counter`; None for any time.

        Returns:
            The engine's message of success, with `queue_seconds`: how long the product waited.

        Raises:
            ClientDisconnect: The caller has left; the product was stopped.
            Draining: The service stops before the product has begun.
            JobFailed: It cannot be computed.
        """
        since = read_clock()
        # Counted once the answer, which the caller waits for, is on its way.
        count_later = asyncio.get_running_loop().call_soon
        message: Mapping[str, Any] | None = self._inline.compute(request, extents)
        if message is None:
            attempt = Attempt(
                request, caller=caller, since=since, priority=priority,
                predicted_seconds=self._plans.predict(request),
            )  # fmt: skip
            leaving = _Leaving(await_leaving)
            try:
                message = await self._compute_by_engine(attempt, extents, leaving, until)
            finally:
                leaving.end()
        else:
            count_later(self._metrics.record_lane, 0.0, request.size)
        count_later(self._record, message, time.time())
        return message

    async def _compute_by_engine(
        self, attempt: Attempt, extents: Sequence[Extent], leaving: "_Leaving", until: float | None
    ) -> Mapping[str, Any]:
        request = replace(attempt.request, timed=self._traces is not None)
        for number in range(1, MOST_TRIES + 1):
            trial = replace(request, job=secrets.token_hex(16), cpu_only=number == MOST_TRIES)
            attempt.make_ready(trial, extents)
            attempt.on_slow = partial(leaving.watch, partial(self._engines.stop, attempt, "left"))
            attempt.until = math.inf if until is None else until
            self._attempts.add(attempt)
            try:
                message = await self._engines.run(attempt)
            finally:
                self._attempts.discard(attempt)
            if message["type"] == "succeeded":
                return {**message, "queue_seconds": attempt.waited_seconds}
            if message["type"] == "cancelled":
                message = self._describe_stop(attempt)
            if not message["retryable"]:
                break
            kind, reason = message["kind"], message["message"]
            logger.warning("a product, try %d: %s: %s", number, kind, reason)
            attempt = attempt.repeat()
        self._metrics.record_end("failed")
        raise JobFailed(message["kind"], message["message"])

    def _describe_stop(self, attempt: Attempt) -> Mapping[str, Any]:
        """The failure of a product that was stopped; raises as `compute`, for other reasons."""
        if attempt.stopped == "left":
            self._metrics.record_end("cancelled")
            raise ClientDisconnect
        if attempt.stopped == "deadline":
            reason = "the product was not computed within its timeout"
            return {"type": "failed", "kind": "deadline", "message": reason, "retryable": False}
        raise Draining(self._settings.drain_seconds)

    def _record(self, message: Mapping[str, Any], ended_at: float) -> None:
        self._metrics.record_success(message["timings"], message["plan"])
        if self._traces is not None:
            self._traces.show_product(message, ended_at)

    def begin_drain(self) -> None:
        """Take no new products; waiting ones are given up, those that an engine has go on."""
        self._draining = True
        for attempt in tuple(self._attempts):
            if attempt.queue is not None:
                self._engines.stop(attempt, "drain")


class _Leaving:
    """Whether the caller of a slow product has left.

    Args:
        wait: Returns when it has.
    """

    def __init__(self, wait: Callable[[], Awaitable[None]]) -> None:
        self._wait = wait
        self._task: asyncio.Future[None] | None = None

    def watch(self, on_left: Callable[[], None]) -> None:
        """Call something once the caller has left; watched from the first call on."""
        if self._task is None:
            self._task = asyncio.ensure_future(self._wait())
        if self._task.done():
            on_left()

    def end(self) -> None:
        """Watch no more."""
        if self._task is not None:
            self._task.cancel()
