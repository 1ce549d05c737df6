"""The order in which products reach the engines: by priority, then by age.

Jobs and products in one call wait in the same lane. On a machine without a GPU one product runs at
a time. With GPUs, a single product may have all devices; while several wait, each takes the devices
on which it ends first, and others run at the same time (`scheduler/planning/lanes.py`). A few small
products are sent ahead, and for each device the next one a moment before it is free, so that the
engine can begin it without waiting for a message.

With a cluster, a product goes to the engine where it should end first, including what is queued
there; the GPUs of this machine have lanes as before. A product that waits for an engine keeps its
place there: later ones may go to other engines, but not overtake it at that one. If a node is lost,
another engine computes its products anew.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from wavetrim.scheduler.engine.messages import FINAL_TYPES, Message, RunRequest
from wavetrim.scheduler.planning.lanes import CPU
from wavetrim.scheduler.planning.lanes import Lane as Devices
from wavetrim.scheduler.planning.placing import Offer
from wavetrim.service.engine.fleet import Fleet
from wavetrim.service.jobs.lanes.cluster_lanes import ClusterLanes
from wavetrim.service.jobs.lanes.host_lanes import HostLanes, LaneState
from wavetrim.service.jobs.lanes.load import Loads
from wavetrim.service.jobs.lanes.turn import Turn, describe_failure, resolve
from wavetrim.service.jobs.lanes.waiting import WaitingTurns
from wavetrim.service.storage.memory.room import Room
from wavetrim.service.threads import run_to_end

logger = logging.getLogger(__name__)

LANE_RUNS: Final = 2
"""Jobs in the lane for each GPU: one that is computed, and the next one, since devices are only
divided among products that wait here."""

LOOK_AHEAD: Final = 32
"""Waiting products that are considered at a time; chosen, to bound the time that it takes."""

LOOK_SECONDS: Final = 5e-3
"""Least time until waiting products are considered again although nothing has ended; chosen."""

AHEAD_SECONDS: Final = 5e-3
"""Time before its devices should be free at which the next product is sent, so that they need not
wait for an answer and a message; chosen."""

MOST_LOSSES: Final = 32
"""Nodes that a product may lose before it fails; chosen."""

STOP_GRACE_SECONDS: Final = 5.0
"""How long an engine may take to stop a product before it is killed; chosen."""


class Lane:
    """Lets products wait for the engines and hands them over in order.

    To be used from one event loop.

    Args:
        fleet: The engines.

    Attributes:
        waiting: How many products wait.
        on_answer: Called with a product and its final message, after those who wait for it.
        count_behind: Tells how many jobs wait that have not entered the lane yet.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._here = fleet.here
        loads = Loads()
        self._load = loads.find(fleet.here.id)
        self._host = HostLanes(fleet.here, self._load)
        self._cluster = ClusterLanes(fleet, loads)
        self._turns = WaitingTurns()
        self._running: dict[str, Turn] = {}
        self._estimating: set[asyncio.Task[None]] = set()
        self._look: asyncio.TimerHandle | None = None
        self.waiting = 0
        self.on_answer: Callable[[Turn, Message], None] | None = None
        self.count_behind: Callable[[], int] = lambda: 0

    @property
    def running(self) -> int:
        """How many products the engines have."""
        return len(self._running)

    @property
    def most_runs(self) -> int:
        """How many jobs may run or wait in the lane at a time."""
        return 1 + LANE_RUNS * len(self._here.devices) + self._cluster.most_runs

    @property
    def longest_wait_seconds(self) -> float:
        """The longest expected time until all devices of a waiting product are free."""
        now = time.monotonic()
        promised = [turn.begins_at - now for turn in self._turns if turn.begins_at is not None]
        return max([0.0, *promised])

    def describe(self) -> list[LaneState]:
        """What each device of this machine does."""
        return self._host.describe()

    def enter(
        self,
        request: RunRequest,
        rooms: Sequence[Room] = (),
        *,
        since: float,
        priority: int = 0,
        on_message: Callable[[Message], None] | None = None,
    ) -> Turn:
        """Let a product wait for its turn; it may begin at once.

        Args:
            request: The product; its id is not in the lane yet.
            rooms: The memory that it lies in. It is held for the engine until that has answered or
                is gone, even if nobody waits for the product any more.
            since: When its caller began to wait, UTC seconds; the earlier one goes first.
            priority: The higher one goes first.
            on_message: Receives the engine's messages before the final one.
        """
        turn = Turn(request, rooms, on_message)
        self.waiting += 1
        self._turns.add(turn, priority=priority, since=since)
        self.advance()
        return turn

    def advance(self) -> None:
        """Send the products that may begin; called whenever an engine or a turn has changed."""
        if self._fleet.nodes:
            self._advance_everywhere()
            return
        self._advance_here()
        if self._here.devices and self._here.ready and self._turns:
            self._advance_lanes()

    async def stop(self, turn: Turn) -> None:
        """Stop a product: do not send it, else ask its engine, and at last end that engine.

        If a node's engine cannot be ended in time, the process that speaks with the nodes is. So
        when this returns, the product has its final message, and nothing writes to its memory.
        """
        self.give_up(turn)
        if turn.final.done():
            return
        turn.cancel()
        await asyncio.wait({turn.final}, timeout=STOP_GRACE_SECONDS)
        if not turn.final.done():
            reason = f"it did not stop a product within {STOP_GRACE_SECONDS:g} s"
            await turn.restart_engine(reason)
            await asyncio.wait({turn.final}, timeout=STOP_GRACE_SECONDS)
            if not turn.final.done() and self._fleet.cluster is not None:
                await self._fleet.cluster.restart(reason)

    def cancel(self, turn: Turn) -> None:
        """Ask the engine that has a product to stop it; one that waits is given up."""
        self.give_up(turn)
        turn.cancel()

    def give_up(self, turn: Turn, message: Message | None = None) -> None:
        """Give up a product if it still waits; one that was sent to an engine goes on.

        Args:
            turn: The product.
            message: Its final message; None if it was cancelled.
        """
        if not turn.begun.done():
            self.waiting -= 1
            turn.begin()
            resolve(turn.final, message or {"type": "cancelled", "job": turn.request.job})

    async def wait_idle(self) -> None:
        """Wait until no engine has a product."""
        while self._running:
            await asyncio.wait({turn.final for turn in self._running.values()})

    def _advance_here(self) -> None:
        """Send products that may have all devices: a single one, and small ones ahead."""
        while self._here.ready and (turn := self._turns.find_first()) is not None:
            if not self._load.has_room(turn) or self._has_lanes(turn):
                return
            self._start_here(turn)

    def _has_lanes(self, turn: Turn) -> bool:
        """Whether a product gets only some devices: others wait, or B is on some of the GPUs."""
        if turn.is_small or not self._here.devices:
            return False
        if (self._turns.has_several or self.count_behind()) and self._host.is_known(turn):
            return True
        return self._host.prefers_gpu(turn)

    def _advance_lanes(self) -> None:
        """Send waiting products to free devices, in order; a later one never delays an earlier one.

        Choices that are missing or old are found anew; a product without any is passed over.
        """
        turns: list[Turn] = []
        while len(turns) < LOOK_AHEAD and (turn := self._turns.take()) is not None:
            turns.append(turn)
        self._place_here(turns)
        self._turns.put_back(turns)

    def _place_here(self, turns: Sequence[Turn]) -> None:
        """Send those products whose devices are nearly free; look again when others should be."""
        known: list[Turn] = []
        next_look = math.inf
        for turn in turns:
            if not self._host.is_fresh(turn):
                self._estimate(turn, self._host.find)
            if self._host.is_known(turn):
                known.append(turn)
        for turn, place in self._host.place(known, behind=self.count_behind()).items():
            lane = place.choice.lane
            if place.begins > AHEAD_SECONDS:
                next_look = min(next_look, place.begins - AHEAD_SECONDS)
            elif place.begins > 0 and not self._load.may_follow(lane):
                next_look = min(next_look, place.begins)
            elif lane or not self._load.has_many_small:
                self._start_here(turn, place.choice.seconds, lane)
        self._look_again(next_look)

    def _look_again(self, seconds: float) -> None:
        """Advance after some time even if nothing ends: devices of others may be free by then."""
        if self._look is not None:
            self._look.cancel()
            self._look = None
        if seconds < math.inf:
            loop = asyncio.get_running_loop()
            self._look = loop.call_later(max(LOOK_SECONDS, seconds), self.advance)

    def _advance_everywhere(self) -> None:
        """Send waiting products to the engines of the cluster; each keeps its place at its engine.

        Those that should be computed here are divided among the GPUs of this machine.
        """
        waiting: list[Turn] = []
        here: list[Turn] = []
        reserved: dict[str, float] = {}
        while len(waiting) < LOOK_AHEAD and (turn := self._turns.take()) is not None:
            if not self._cluster.is_known(turn):
                self._estimate(turn, self._cluster.find)
                waiting.append(turn)
                continue
            offer = self._cluster.choose(turn, reserved)
            if offer is not None:
                engine = offer.engine
                if engine == self._here.id and self._here.devices:
                    here.append(turn)
                elif self._cluster.has_room(engine, turn, reserved):
                    self._begin(turn)
                    self._send(turn, offer)
                    continue
                reserved[engine] = reserved.get(engine, 0.0) + offer.seconds
            waiting.append(turn)
        self._place_here(here)
        self._turns.put_back(waiting)

    def _estimate(self, turn: Turn, find: Callable[[RunRequest], object]) -> None:
        """Find, in a thread, how long a product would take where; then advance."""

        async def estimate() -> None:
            try:
                await run_to_end(find, turn.request)
            except Exception as error:  # it would wait for ever
                logger.exception("product %s cannot be planned", turn.request.job)
                self.give_up(turn, describe_failure(error, job=turn.request.job))
            finally:
                turn.is_being_estimated = False
            self.advance()

        if not turn.is_being_estimated:
            turn.is_being_estimated = True
            task = asyncio.create_task(estimate(), name="estimate")
            self._estimating.add(task)
            task.add_done_callback(self._estimating.discard)

    def _start_here(self, turn: Turn, seconds: float = 0.0, lane: Devices | None = None) -> None:
        self._begin(turn)
        self._send_here(turn, seconds, lane)

    def _send(self, turn: Turn, offer: Offer) -> None:
        """Send a product to the engine that was chosen."""
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
            request = replace(request, lane=lane or frozenset({CPU}))
        here.start_run(request.as_message(), lambda message: self._take_here(turn, message))

    def _begin(self, turn: Turn) -> None:
        self._running[turn.request.job] = turn
        self.waiting -= 1
        turn.holds = [room.hold("engine") for room in turn.rooms]
        turn.begin()

    def _take_here(self, turn: Turn, message: Message) -> None:
        if message["type"] == "begun":
            lane, seconds = frozenset(message["lane"]), message["seconds"]
            self._load.begin(turn.request.job, lane, seconds)
            turn.note_wait()
            self.advance()
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
        resolve(turn.final, message)
        self.advance()
        if self.on_answer is not None:
            asyncio.get_running_loop().call_soon(self.on_answer, turn, message)
