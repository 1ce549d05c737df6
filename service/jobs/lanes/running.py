"""The products that the engines have: sent to them, moved if a node is lost, stopped, and ended."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from wavetrim.scheduler.engine.messages import FINAL_TYPES, Message
from wavetrim.scheduler.planning.device_sets import CPU
from wavetrim.scheduler.planning.device_sets import DeviceSet as Devices
from wavetrim.scheduler.planning.placing import Offer
from wavetrim.service.clock import read_clock
from wavetrim.service.engine.fleet import Fleet
from wavetrim.service.jobs.lanes.cluster_lanes import ClusterLanes
from wavetrim.service.jobs.lanes.host_lanes import HostLanes, LaneState
from wavetrim.service.jobs.lanes.load import Load
from wavetrim.service.jobs.lanes.turn import Turn, resolve
from wavetrim.service.jobs.past import Past
from wavetrim.service.jobs.plans import Plans

logger = logging.getLogger(__name__)

MOST_LOSSES: Final = 32
"""Nodes that a product may lose before it fails; chosen."""

STOP_GRACE_SECONDS: Final = 5.0
"""How long an engine may take to stop a product before it is killed; chosen."""


class RunningProducts:
    """Has products computed by the engines. To be used from one event loop.

    Args:
        fleet: The engines.
        plans: Say how long products take.

    Attributes:
        past: What those that have ended taught.
        on_change: Called when an engine may have another product.
        on_left: Called when a product has ended, or does not wait any more: others may come next.
        on_answer: Called with a product and its final message, after those who wait for it.
    """

    def __init__(self, fleet: Fleet, plans: Plans) -> None:
        self._fleet = fleet
        self._here = fleet.here
        loads = defaultdict[str, Load](Load)
        self._load = loads[fleet.here.id]
        self._host = HostLanes(fleet.here, self._load, plans.cache)
        self._cluster = ClusterLanes(fleet, loads, plans)
        self._running: dict[str, Turn] = {}
        self.past = Past()
        self.on_change: Callable[[], None] = lambda: None
        self.on_left: Callable[[], None] = lambda: None
        self.on_answer: Callable[[Turn, Message], None] | None = None

    @property
    def running(self) -> int:
        """How many products the engines have."""
        return len(self._running)

    @property
    def is_ready(self) -> bool:
        """Whether an engine takes products."""
        return self._here.ready or bool(self._fleet.nodes)

    @property
    def devices(self) -> str:
        """The devices of this machine, in words."""
        return ", ".join(f"cuda:{one.index}" for one in self._here.devices) or "the CPU"

    def list_running(self) -> list[Turn]:
        """The products that the engines have."""
        return list(self._running.values())

    def describe(self) -> list[LaneState]:
        """What each device of this machine does."""
        return self._host.describe()

    async def wait_idle(self) -> None:
        """Wait until no engine has a product."""
        while self._running:
            await asyncio.wait({turn.final for turn in self._running.values()})

    async def stop_sent(self, turn: Turn) -> None:
        """Stop a product that was sent: ask its engine, and at last end that engine.

        If a node's engine cannot be ended in time, the process that speaks with the nodes is. So
        when this returns, the product has its final message, and nothing writes to its memory.
        """
        turn.cancel()
        await asyncio.wait({turn.final}, timeout=STOP_GRACE_SECONDS)
        if not turn.final.done():
            reason = f"it did not stop a product within {STOP_GRACE_SECONDS:g} s"
            await turn.restart_engine(reason)
            await asyncio.wait({turn.final}, timeout=STOP_GRACE_SECONDS)
            if not turn.final.done() and self._fleet.cluster is not None:
                await self._fleet.cluster.restart(reason)

    def send_here(self, turn: Turn, seconds: float, lane: Devices | None = None) -> None:
        """Send a product to this machine's engine.

        Args:
            turn: The product.
            seconds: How long it should take.
            lane: The devices that work at it; None for all.
        """
        self._begin(turn)
        self._send_here(turn, seconds, lane)

    def send(self, turn: Turn, offer: Offer) -> None:
        """Send a product to the engine that made an offer."""
        self._begin(turn)
        self._send(turn, offer)

    def _send(self, turn: Turn, offer: Offer) -> None:
        if offer.engine == self._here.id:
            self._send_here(turn, offer.seconds)
        else:
            take, lost = partial(self._take, turn), partial(self._move, turn)
            self._cluster.start(turn, offer, take=take, lost=lost)

    def _move(self, turn: Turn, failure: Message) -> None:
        """Have another engine compute a product whose node is lost, from the first row on."""
        turn.losses += 1
        offer = self._cluster.choose(turn, {}) if turn.losses <= MOST_LOSSES else None
        if offer is None:
            self._take(turn, failure)
            return
        job = turn.request.job
        logger.warning("product %s goes elsewhere: %s", job, failure["message"])
        if turn.request.row_step:
            self._take(turn, {"type": "again", "job": job})
        self._send(turn, offer)

    def _send_here(self, turn: Turn, seconds: float, lane: Devices | None = None) -> None:
        job, here, request = turn.request.job, self._here, turn.request
        self._load.add(job, turn, seconds, lane)
        turn.cancel, turn.restart_engine = lambda: here.cancel(job), here.restart
        if lane is not None:
            request = replace(request, device_set=lane or frozenset({CPU}))
        here.start_run(request.as_message(), lambda message: self._take_here(turn, message))

    def _begin(self, turn: Turn) -> None:
        self._running[turn.request.job] = turn
        turn.sent_at = read_clock()
        if turn.queue is not None:
            turn.queue.begin(turn)
        turn.holds = [room.hold("engine") for room in turn.rooms]
        turn.begin()
        turn.on_begin()

    def _take_here(self, turn: Turn, message: Message) -> None:
        if message["type"] == "begun":
            lane, seconds = frozenset(message["lane"]), message["seconds"]
            self._load.begin(turn.request.job, lane, seconds)
            turn.begun_at = read_clock()
            turn.note_wait()
            self.on_change()
            return
        if message["type"] in FINAL_TYPES:
            self._load.remove(turn.request.job)
            self._host.learn(turn, message)
        self._take(turn, message)

    def _take(self, turn: Turn, message: Message) -> None:
        if message["type"] not in FINAL_TYPES:
            if turn.on_message is not None:
                turn.on_message(message)
            return
        for hold in turn.holds:
            hold.release()
        del self._running[turn.request.job]
        self._learn(turn, message)
        resolve(turn.final, message)
        self.on_change()
        self.on_left()
        if self.on_answer is not None:
            asyncio.get_running_loop().call_soon(self.on_answer, turn, message)

    def _learn(self, turn: Turn, message: Message) -> None:
        """Learn from a product how long the next ones of its kind take."""
        turn.ended_at = read_clock()
        began_at = turn.begun_at or turn.sent_at
        if message["type"] == "succeeded" and began_at is not None:
            self.past.learn_run(turn.kind, turn.predicted_seconds, turn.ended_at - began_at)
