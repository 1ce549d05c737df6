"""Products in one call: computed while their callers wait, and not stored."""

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import ClientDisconnect

from wavetrim.scheduler.engine.messages import Message, RunRequest
from wavetrim.service.clock import read_clock
from wavetrim.service.jobs.errors import JobFailed, QueueFull
from wavetrim.service.jobs.job import MOST_TRIES
from wavetrim.service.jobs.lanes.engine_queue import EngineQueue
from wavetrim.service.jobs.queue import CANCELLED, Attempt, make_failure
from wavetrim.service.storage.memory.extent import Extent

if TYPE_CHECKING:
    from wavetrim.service.telemetry.traces import Traces

logger = logging.getLogger(__name__)

_SLOW_SECONDS: Final = 0.05
"""Age of a product from which it is watched whether its caller has left; chosen."""

_LEFT: Final[Message] = {"type": "cancelled"}
"""The end of a product whose caller has left."""

_LATE: Final = make_failure("deadline", "the product was not computed within its timeout")


class Products:
    """Computes the smallest products inline, and takes all others through the queue to the engine.

    To be used from one event loop.
    """

    def __init__(self, engines: EngineQueue, traces: "Traces | None" = None) -> None:
        self._engines, self._metrics, self._traces = engines, engines.metrics, traces
        self._attempts: set[Attempt] = set()  # they wait for an engine, or one has them

    def check_admission(self, caller: str) -> None:
        """Make sure that one more product may come, before any of its bytes are received.

        Raises:
            Draining: The service is stopping.
            QueueFull: As many of the caller's products wait as may.
        """
        if self._engines.draining:
            raise self._engines.refuse()
        waiting = sum(one.caller == caller for one in self._list_waiting())
        most = self._engines.settings.max_queued_jobs
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
        # Counted once the answer, which the caller waits for, is on its way.
        count_later = asyncio.get_running_loop().call_soon
        message: Mapping[str, Any] | None = self._engines.inline.compute(request, extents)
        if message is None:
            attempt = Attempt(
                replace(request, timed=self._traces is not None),
                caller=caller, since=read_clock(), priority=priority,
                predicted_seconds=self._engines.plans.predict(request),
            )  # fmt: skip
            with self._watching(attempt, await_leaving, until):
                message = await self._compute_by_engine(attempt, extents)
        else:
            count_later(self._metrics.record_lane, 0.0, request.size)
        count_later(self._record, message, time.time())
        return message

    @contextmanager
    def _watching(
        self,
        attempt: Attempt,
        await_leaving: Callable[[], Awaitable[None]],
        until: float | None,
    ) -> Iterator[None]:
        """While the block runs, stop a product that is late, or slow and its caller leaves."""
        loop = asyncio.get_running_loop()

        def watch() -> None:
            stack.callback(loop.create_task(stop_when_left()).cancel)

        async def stop_when_left() -> None:
            await await_leaving()
            self._engines.stop(attempt, _LEFT)

        with ExitStack() as stack:
            self._attempts.add(attempt)
            stack.callback(self._attempts.discard, attempt)
            stack.callback(loop.call_later(_SLOW_SECONDS, watch).cancel)
            if until is not None:
                left_seconds = until - time.perf_counter()
                late = loop.call_later(left_seconds, self._engines.stop, attempt, _LATE)
                stack.callback(late.cancel)
            yield

    async def _compute_by_engine(
        self, attempt: Attempt, extents: Sequence[Extent]
    ) -> Mapping[str, Any]:
        for number in range(1, MOST_TRIES + 1):
            job, cpu_only = secrets.token_hex(16), number == MOST_TRIES
            attempt.make_ready(replace(attempt.request, job=job, cpu_only=cpu_only), extents)
            message = await self._engines.run(attempt)
            if message["type"] == "succeeded":
                return {**message, "queue_seconds": attempt.waited_seconds}
            if message is _LEFT:
                self._metrics.jobs_finished.labels("cancelled").inc()
                raise ClientDisconnect
            if message["type"] == "cancelled":
                raise self._engines.refuse()
            if not message["retryable"]:
                break
            kind, reason = message["kind"], message["message"]
            logger.warning("a product, try %d: %s: %s", number, kind, reason)
        self._metrics.jobs_finished.labels("failed").inc()
        raise JobFailed(message["kind"], message["message"])

    def _record(self, message: Mapping[str, Any], ended_at: float) -> None:
        self._metrics.record_success(message["timings"], message["plan"])
        if self._traces is not None:
            self._traces.show_product(message, ended_at)

    def stop_waiting(self) -> None:
        """Give up those that wait, as the service stops; those that an engine has go on."""
        for attempt in self._list_waiting():
            self._engines.stop(attempt, CANCELLED)

    def _list_waiting(self) -> list[Attempt]:
        return [one for one in self._attempts if one.queue is not None]
