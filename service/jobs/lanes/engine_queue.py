"""The way of products to the engines, in the order of the queue.

Jobs and products in one call wait in the same queue. On a machine without a GPU one product runs at
a time. With GPUs, a single product may have all devices; while several wait, each takes the devices
on which it ends first, and others run at the same time (`planning/device_sets.py`). A few small
products are sent ahead, and for each device the next one a moment before it is free, so that the
engine can begin it without waiting for a message. A job whose matrices are not in memory yet is
asked for (`Attempt.on_wanted`) when its devices are nearly free.

With a cluster, a product goes to the engine where it should end first, including what is queued
there; the GPUs of this machine have lanes as before. A product that waits for an engine keeps its
place there: later ones may go to other engines, but not overtake it at that one. If a node is lost,
another engine computes its products anew.

A product is stopped with the message that it is to end with: when its caller leaves or cancels it,
or when it takes too long.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from typing import Final

from wavetrim.scheduler.engine.messages import Message, RunRequest
from wavetrim.scheduler.planning.device_sets import Choice
from wavetrim.service.jobs.lanes.cluster_lanes import NODE_RUNS
from wavetrim.service.jobs.lanes.running import RunningProducts
from wavetrim.service.jobs.queue import CANCELLED, AnyEngine, Attempt, make_failure
from wavetrim.service.threads import run_to_end

logger = logging.getLogger(__name__)

LANE_RUNS: Final = 2
"""Jobs for each GPU, and for the CPU, whose matrices are brought into memory: one that is computed,
and the next one."""

LOOK_AHEAD: Final = 32
"""Waiting products that are considered at a time; chosen, to bound the time that it takes."""

LOOK_SECONDS: Final = 5e-3
"""Least time until waiting products are considered again although nothing has ended; chosen."""

AHEAD_SECONDS: Final = 5e-3
"""Time before its devices should be free at which the next product is sent, so that they need not
wait for an answer and a message; chosen."""

STOP_GRACE_SECONDS: Final = 5.0
"""How long an engine may take to stop a product before it is killed; chosen."""

_IDLE_SECONDS: Final = 0.05
"""Time between two looks whether an engine still has a product; chosen."""


class EngineQueue(RunningProducts):
    """Lets products wait for the engines and hands them over in order, in one event loop."""

    _look: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        """How many products wait that are ready."""
        return sum(attempt.is_ready for attempt in self.queue.list_all())

    @property
    def most_runs(self) -> int:
        """How many jobs are brought into memory at a time, those that are computed included."""
        return LANE_RUNS * (1 + len(self.here.devices)) + NODE_RUNS * len(self.nodes)

    @property
    def longest_wait_seconds(self) -> float:
        """The longest expected time until the devices of a waiting product are free."""
        waiting = self.queue.list_all()
        if not waiting:
            return 0.0
        seconds = [one.predicted_seconds for one in waiting]
        before = sum(seconds) - max(seconds)
        return (self._load.find_busy() + before) / max(1, len(self.here.devices))

    async def run(self, attempt: Attempt) -> Message:
        """Let a product that is ready wait for an engine, and return its final message.

        Returns:
            The engine's message, or that with which the product was stopped.
        """
        self.queue.add(attempt)
        self.advance()
        try:
            message = await attempt.final
        except asyncio.CancelledError:
            self.stop(attempt, CANCELLED)
            if attempt.engine is not None:
                attempt.engine.cancel(attempt.run_id)
            raise
        return message if message["type"] == "succeeded" else attempt.stopped or message

    async def wait_idle(self) -> None:
        """Wait until no engine has a product."""
        while running := self.list_running():
            # Of a product whose caller is gone only the engine knows when it ends.
            awaited = {attempt.final for attempt in running if not attempt.final.done()}
            await (asyncio.wait(awaited) if awaited else asyncio.sleep(_IDLE_SECONDS))

    def stop(self, attempt: Attempt, message: Message) -> None:
        """Stop a product, which has its final message soon; the first one counts.

        But one that has timed out may be tried again, unless it is stopped otherwise.
        """
        if attempt.stopped is None or attempt.stopped.get("retryable"):
            attempt.stopped = message
        self.give_up(attempt)
        if attempt.engine is not None and not attempt.final.done():
            self.start(self._end_run(attempt, attempt.engine, attempt.final), "stop")

    def time_out(self, attempt: Attempt) -> None:
        """Stop a product that an engine has had for too long."""
        limit = f"{self.settings.job_timeout_seconds:g} s (job_timeout_seconds)"
        reason = f"the product took longer than {limit}"
        # A GPU may hang where the CPU does not; the CPU is only slow.
        self.stop(attempt, make_failure("timeout", reason, retryable=bool(self.here.devices)))

    async def _end_run(
        self, attempt: Attempt, engine: AnyEngine, final: asyncio.Future[Message]
    ) -> None:
        """Ask an engine to stop a product, and at last end that engine.

        If a node's engine cannot be ended in time, the process that speaks with the nodes is. So
        when this returns, the product has its final message, and nothing writes to its memory.
        """
        engine.cancel(attempt.run_id)
        await asyncio.wait({final}, timeout=STOP_GRACE_SECONDS)
        if not final.done():
            reason = f"it did not stop a product within {STOP_GRACE_SECONDS:g} s"
            await engine.restart(reason)
            await asyncio.wait({final}, timeout=STOP_GRACE_SECONDS)
            if not final.done() and self.cluster is not None:
                await self.cluster.restart(reason)

    def advance(self) -> None:
        """Send the products that may begin; called whenever an engine or an attempt has changed."""
        if self.nodes:
            self._advance_everywhere()
        elif self.here.ready and self.queue:
            self._advance_here()
            if self.here.devices and self.queue:
                self._place_here(self.queue.list_first(LOOK_AHEAD))
        self.want_next()

    def want_next(self) -> None:
        """Have the next products brought into memory, as many as the engines can take."""
        for attempt in self.queue.list_first(max(1, self.most_runs - self.running)):
            if not attempt.is_ready:
                attempt.on_wanted()

    def _advance_here(self) -> None:
        """Send products that may have all devices: a single one, and small ones ahead."""
        if self._load.is_full:
            return
        for attempt in self.queue.list_first(LOOK_AHEAD):
            if not attempt.is_ready:
                continue
            if not self._load.has_room(attempt) or self._has_lanes(attempt):
                return
            self.send(attempt, self.here, attempt.predicted_seconds)

    def _has_lanes(self, attempt: Attempt) -> bool:
        """Whether a product gets only some devices: others wait, or B is on some of the GPUs."""
        if attempt.request.is_small or not self.here.devices:
            return False
        if len(self.queue) > 1 and self.host.find_kept(attempt) is not None:
            return True
        return self.host.prefers_gpu(attempt)

    def _place_here(self, attempts: Sequence[Attempt]) -> None:
        """Send those products whose devices are nearly free; look again when others should be.

        A later one never delays an earlier one. Choices that are missing or old are found anew; a
        product without any is passed over.
        """
        known: dict[Attempt, Sequence[Choice]] = {}
        next_look = math.inf
        for attempt in attempts:
            if not self.host.is_fresh(attempt):
                self._estimate(attempt, self.host.find)
            if (choices := self.host.find_kept(attempt)) is not None:
                known[attempt] = choices
        behind = len(self.queue) - len(attempts)
        for attempt, assigned in self.host.assign(known, behind=behind).items():
            lane = assigned.choice.device_set
            if not attempt.is_ready:
                if assigned.begins <= AHEAD_SECONDS:
                    attempt.on_wanted()
            elif assigned.begins > AHEAD_SECONDS:
                next_look = min(next_look, assigned.begins - AHEAD_SECONDS)
            elif assigned.begins > 0 and not self._load.may_follow(lane):
                next_look = min(next_look, assigned.begins)
            elif lane or not self._load.has_many_small:
                self.send(attempt, self.here, assigned.choice.seconds, lane)
        self._look_again(next_look)

    def _look_again(self, seconds: float) -> None:
        """Advance after some time even if nothing ends: devices of others may be free by then."""
        if self._look is not None:
            self._look.cancel()
        if seconds < math.inf:
            loop = asyncio.get_running_loop()
            self._look = loop.call_later(max(LOOK_SECONDS, seconds), self.advance)

    def _advance_everywhere(self) -> None:
        """Send waiting products to the engines of the cluster; each keeps its place at its engine.

        Those that should be computed here are divided among the GPUs of this machine.
        """
        here: list[Attempt] = []
        reserved: dict[str, float] = {}
        for attempt in self.queue.list_first(LOOK_AHEAD):
            if not self._cluster.is_known(attempt.request):
                self._estimate(attempt, self._cluster.find)
                continue
            if (chosen := self._cluster.choose(attempt, reserved)) is None:
                continue
            seconds, engine = chosen
            if engine is self.here and self.here.devices:
                here.append(attempt)
            elif self._cluster.has_room(engine.id, attempt, reserved):
                if attempt.is_ready:
                    self.send(attempt, engine, seconds)
                    continue
                attempt.on_wanted()
            reserved[engine.id] = reserved.get(engine.id, 0.0) + seconds
        self._place_here(here)

    def _estimate(self, attempt: Attempt, find: Callable[[RunRequest], object]) -> None:
        """Find, in a thread, how long a product would take where; then advance."""

        async def estimate() -> None:
            try:
                await run_to_end(find, attempt.request)
            except Exception as error:  # it would wait for ever
                logger.exception("product %s cannot be planned", attempt.request.job)
                reason = f"it cannot be planned: {type(error).__name__}: {error}"
                self.give_up(attempt, make_failure("engine", reason, retryable=True))
            finally:
                attempt.is_being_estimated = False
            self.advance()

        if not attempt.is_being_estimated:
            attempt.is_being_estimated = True
            self.start(estimate(), "estimate")
