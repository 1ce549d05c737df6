"""Products in one call: computed while their callers wait, and not stored."""

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import ClientDisconnect

from wavetrim.scheduler.engine.messages import RunRequest
from wavetrim.service.clock import read_clock
from wavetrim.service.engine.engine import Engine
from wavetrim.service.errors import Draining
from wavetrim.service.jobs.errors import JobFailed, QueueFull
from wavetrim.service.jobs.inline import InlineProducts
from wavetrim.service.jobs.job import MOST_TRIES
from wavetrim.service.jobs.lanes.lane import Lane
from wavetrim.service.jobs.lanes.turn import Turn, describe_timeout
from wavetrim.service.settings import Settings
from wavetrim.service.storage.memory.room import Room
from wavetrim.service.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from wavetrim.service.telemetry.traces import Traces

logger = logging.getLogger(__name__)

_PATIENCE_SECONDS: Final = 0.05
"""How long a product runs before it is watched: quick ones end sooner than a watch begins. One
timer for all products looks this often, since a timer for each would cost a small one 10 µs."""


class Products:
    """Computes the smallest products inline, and takes all others through the lane to the engine.

    To be used from one event loop.

    Args:
        lane: Where they wait for the engine.
        engine: Computes them.
        settings: How often and how long they are tried, and how many may wait.
        metrics: Counts them.
        traces: Makes their spans; None without.
    """

    def __init__(
        self,
        lane: Lane,
        engine: Engine,
        settings: Settings,
        metrics: Metrics,
        *,
        traces: "Traces | None" = None,
    ) -> None:
        self._lane = lane
        self._engine = engine
        self._settings = settings
        self._metrics = metrics
        self._traces = traces
        self._inline = InlineProducts(engine, settings.kernel_cache_dir)
        self._watches: set[_Watch] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._draining = False

    def check_admission(self) -> None:
        """Make sure that one more product may come, before any of its bytes are received.

        Raises:
            Draining: The service is stopping.
            QueueFull: As many products wait as may.
        """
        if self._draining:
            raise Draining(self._settings.drain_seconds)
        waiting, most = self._lane.waiting, self._settings.max_queued_jobs
        if waiting >= most:
            raise QueueFull("waiting products", waiting + 1, most, 1)

    async def compute(
        self,
        request: RunRequest,
        rooms: Sequence[Room],
        await_leaving: Callable[[], Awaitable[None]],
    ) -> Mapping[str, Any]:
        """Compute a product, with as many tries as a job has.

        Args:
            request: The product; its id is replaced.
            rooms: The memory that it lies in.
            await_leaving: Returns when the caller has left; called only for a slow product.

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
        message: Mapping[str, Any] | None = self._inline.compute(request, rooms)
        if message is None:
            message = await self._compute_by_engine(request, rooms, since, await_leaving)
        else:
            count_later(self._metrics.record_lane, 0.0, request.size)
        count_later(self._record, message, time.time())
        return message

    async def _compute_by_engine(
        self,
        request: RunRequest,
        rooms: Sequence[Room],
        since: float,
        await_leaving: Callable[[], Awaitable[None]],
    ) -> Mapping[str, Any]:
        for attempt in range(1, MOST_TRIES + 1):
            cpu_only = attempt == MOST_TRIES
            trial = replace(
                request,
                job=secrets.token_hex(16),
                cpu_only=cpu_only,
                timed=self._traces is not None,
            )
            message = await self._try(trial, rooms, since, await_leaving)
            if message["type"] == "succeeded":
                return message
            if not message["retryable"]:
                break
            kind, reason = message["kind"], message["message"]
            logger.warning("a product, try %d: %s: %s", attempt, kind, reason)
        self._metrics.record_end("failed")
        raise JobFailed(message["kind"], message["message"])

    def _record(self, message: Mapping[str, Any], ended_at: float) -> None:
        predicted = message["plan"]["predicted"]["total_seconds"]
        self._metrics.record_success(message["timings"], predicted)
        if self._traces is not None:
            self._traces.show_product(message, ended_at)

    def begin_drain(self) -> None:
        """Take no new products; waiting ones are given up, those that an engine has go on."""
        self._draining = True
        for watch in tuple(self._watches):
            self._lane.give_up(watch.turn)

    async def _try(
        self,
        request: RunRequest,
        rooms: Sequence[Room],
        since: float,
        await_leaving: Callable[[], Awaitable[None]],
    ) -> Mapping[str, Any]:
        turn = self._lane.enter(request, rooms, since=since)
        watch = _Watch(turn, self._lane, await_leaving, self._settings.job_timeout_seconds)
        self._watches.add(watch)
        self._look_later()
        try:
            message = await turn.final
        except asyncio.CancelledError:
            self._lane.cancel(turn)
            raise
        finally:
            watch.end()
            self._watches.discard(watch)
        if message["type"] != "cancelled":
            return {**message, "queue_seconds": turn.waited_seconds}
        if watch.reason == "left":
            self._metrics.record_end("cancelled")
            raise ClientDisconnect
        if watch.reason == "timeout":
            limit = self._settings.job_timeout_seconds
            return describe_timeout(limit, has_gpu=bool(self._engine.devices), job=request.job)
        raise Draining(self._settings.drain_seconds)

    def _look_later(self) -> None:
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(_PATIENCE_SECONDS, self._look)

    def _look(self) -> None:
        """Begin to watch the products that have become slow."""
        self._timer = None
        for watch in self._watches:
            watch.begin_if_slow()
        if self._watches:
            self._look_later()


class _Watch:
    """Stops a slow product when its caller leaves, or at its deadline.

    Attributes:
        turn: The product.
        reason: "left" or "timeout", once it has stopped the product.
    """

    def __init__(
        self,
        turn: Turn,
        lane: Lane,
        await_leaving: Callable[[], Awaitable[None]],
        timeout_seconds: float,
    ) -> None:
        self.turn = turn
        self._lane = lane
        self._await_leaving = await_leaving
        self._timeout_seconds = timeout_seconds
        self._task: asyncio.Task[None] | None = None
        self._entered = time.monotonic()
        self.reason: str | None = None

    def end(self) -> None:
        """Watch no more."""
        if self._task is not None:
            self._task.cancel()

    def begin_if_slow(self) -> None:
        """Watch from now on, unless the product is new or watched already."""
        if self._task is None and time.monotonic() - self._entered >= _PATIENCE_SECONDS:
            self._task = asyncio.create_task(self._watch(), name="product-watch")

    async def _watch(self) -> None:
        leaving: asyncio.Future[Any] = asyncio.ensure_future(self._await_leaving())
        first = asyncio.FIRST_COMPLETED
        try:
            begins: set[asyncio.Future[Any]] = {leaving, self.turn.begun}
            await asyncio.wait(begins, return_when=first)
            ends: set[asyncio.Future[Any]] = {leaving, self.turn.final}
            await asyncio.wait(ends, timeout=self._timeout_seconds, return_when=first)
        finally:
            left = leaving.done()
            leaving.cancel()
        if not self.turn.final.done():
            self.reason = "left" if left else "timeout"
            await self._lane.stop(self.turn)
