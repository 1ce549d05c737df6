"""The products that engines try: sent to them, moved if a node is lost, stopped, and ended.

A try is stopped when its caller leaves or cancels it, or when it takes too long. One timer looks at
all tries, since a timer for each would cost a small one 10 µs; quick ones end before it looks.
"""

import asyncio
import logging
import secrets
import time
from collections import defaultdict
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from wavetrim.scheduler.engine.messages import FINAL_TYPES, Message
from wavetrim.scheduler.planning.device_sets import CPU, DeviceSet
from wavetrim.service.clock import read_clock
from wavetrim.service.engine.cluster import Cluster, ClusterNode
from wavetrim.service.engine.engine import Engine
from wavetrim.service.errors import Draining
from wavetrim.service.jobs.estimate import Past
from wavetrim.service.jobs.lanes.attempt import AnyEngine, Attempt, Load
from wavetrim.service.jobs.lanes.cluster_lanes import ClusterLanes
from wavetrim.service.jobs.lanes.host_lanes import HostLanes
from wavetrim.service.jobs.plans import InlineProducts, Plans
from wavetrim.service.jobs.queue import Queue
from wavetrim.service.settings import Settings
from wavetrim.service.telemetry.metrics import Metrics

logger = logging.getLogger(__name__)

MOST_LOSSES: Final = 32
"""Nodes that a product may lose before it fails; chosen."""

STOP_GRACE_SECONDS: Final = 5.0
"""How long an engine may take to stop a product before it is killed; chosen."""

LOOK_SECONDS: Final = 0.05
"""Time between two looks at tries, and the age from which they are looked at; chosen."""

_NODE_FAILURES: Final = frozenset({"node", "engine", "gone", "memory", "device", "internal"})
"""Kinds of failure that are a node's own: another engine may succeed."""


class RunningProducts:
    """Has products computed by the engines. To be used from one event loop.

    Attributes:
        here: The engine of this machine.
        cluster: The nodes; None without a cluster.
        settings, metrics: As given.
        plans: The plans of this machine, by shape.
        inline: Computes the smallest products without an engine.
        host: The devices of this machine.
        loads: What each engine has to do, by its id.
        past: What those that have ended taught.
        queue: The products that wait.
        tries: The products that are being tried: they wait for an engine, or one has them.
        tasks: What is done besides: jobs, and looking for engines.
        draining: Whether the service takes no new work.
    """

    def __init__(
        self,
        here: Engine,
        settings: Settings,
        metrics: Metrics,
        cluster: Cluster | None = None,
    ) -> None:
        self.here, self.settings, self.metrics, self.cluster = here, settings, metrics, cluster
        self.plans = Plans(here)
        self.inline = InlineProducts(self.plans, settings.kernel_cache_dir)
        self.loads = defaultdict[str, Load](Load)
        self._load = self.loads[here.id]
        self.host = HostLanes(here, self._load, self.plans)
        self._cluster = ClusterLanes(self)
        self.tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self.past = Past()
        self.queue = Queue()
        self.tries: set[Attempt] = set()
        self.draining = False

    @property
    def running(self) -> int:
        """How many products the engines have."""
        return len(self.list_running())

    @property
    def nodes(self) -> Mapping[str, ClusterNode]:
        """The nodes that take products, by their ids."""
        return self.cluster.nodes if self.cluster is not None and self.cluster.ready else {}

    @property
    def is_ready(self) -> bool:
        """Whether an engine takes products."""
        return self.here.ready or bool(self.nodes)

    def find_engine(self, engine_id: str) -> AnyEngine | None:
        """An engine that takes products."""
        if engine_id == self.here.id:
            return self.here if self.here.ready else None
        return self.nodes.get(engine_id)

    @property
    def devices(self) -> str:
        """The devices of this machine, in words."""
        return ", ".join(f"cuda:{one.index}" for one in self.here.devices) or "the CPU"

    def refuse(self) -> Draining:
        """The refusal of new work, as the service stops."""
        return Draining(self.settings.drain_seconds)

    def list_running(self) -> list[Attempt]:
        """The products that the engines have. Any thread may call this."""
        return [one for load in list(self.loads.values()) for one in list(load.runs)]

    def advance(self) -> None:
        """Send the products that may begin; called whenever an engine or an attempt has changed."""
        raise NotImplementedError

    async def wait_idle(self) -> None:
        """Wait until no engine has a product."""
        while running := self.list_running():
            # Of a product whose caller is gone only the engine knows when it ends.
            awaited = {attempt.final for attempt in running if not attempt.final.done()}
            await (asyncio.wait(awaited) if awaited else asyncio.sleep(LOOK_SECONDS))

    def give_up(self, attempt: Attempt, message: Message | None = None) -> None:
        """Give up a product if it still waits; one that was sent to an engine goes on."""
        if attempt.queue is not None:
            attempt.queue.remove(attempt)
            attempt.end(message or {"type": "cancelled", "job": attempt.request.job})
            self.advance()

    def stop(self, attempt: Attempt, reason: str) -> None:
        """Stop a product, which has its final message soon; the first reason counts.

        But one that has timed out may be tried again, unless it is stopped otherwise.
        """
        if attempt.stopped in (None, "timeout"):
            attempt.stopped = reason
        self.give_up(attempt)
        if attempt.engine is not None and not attempt.final.done():
            self.start(self._end_run(attempt, attempt.engine, attempt.final), "stop")

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Do something besides, until it is done or the service stops."""
        self.tasks.add(task := asyncio.create_task(work, name=name))
        task.add_done_callback(self.tasks.discard)
        return task

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

    def watch_tries(self) -> None:
        """Look at the tries soon, and again while there are any."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(LOOK_SECONDS, self._look_at_tries)

    def _look_at_tries(self) -> None:
        """Look at the tries that are slow."""
        self._timer, now, clock = None, time.perf_counter(), read_clock()
        most_seconds = self.settings.job_timeout_seconds
        for attempt in tuple(self.tries):
            if now - attempt.entered_at < LOOK_SECONDS or attempt.stopped is not None:
                continue
            if now >= attempt.until:
                self.stop(attempt, "deadline")
            elif attempt.sent_at is not None and clock - attempt.sent_at >= most_seconds:
                self.stop(attempt, "timeout")
            else:
                attempt.on_slow()
        if self.tries:
            self.watch_tries()

    def send(
        self, attempt: Attempt, engine: AnyEngine, seconds: float, lane: DeviceSet | None = None
    ) -> None:
        """Send a product to an engine, or to some devices of this machine."""
        attempt.sent_at = read_clock()
        if attempt.queue is not None:
            attempt.queue.begin(attempt)
        attempt.holds = [extent.hold("engine") for extent in attempt.extents]
        attempt.waited_seconds = time.perf_counter() - attempt.entered_at
        attempt.on_begin()
        self._start(attempt, engine, seconds, lane)

    def _start(
        self, attempt: Attempt, engine: AnyEngine, seconds: float, lane: DeviceSet | None = None
    ) -> None:
        """Have an engine begin; the final message may come before this returns."""
        message, run_id = attempt.request.as_message(), attempt.request.job
        if engine is not self.here:
            # A job may be tried again while a node still ends its last try.
            run_id = f"{run_id}.{secrets.token_hex(8)}"
            message |= {"job": run_id, "expected_seconds": seconds}
        elif lane is not None:
            message = replace(attempt.request, device_set=lane or frozenset({CPU})).as_message()
        attempt.engine, attempt.run_id = engine, run_id
        attempt.seconds, attempt.lane = seconds, lane
        self.loads[engine.id].add(attempt)
        engine.start_run(message, partial(self._take, attempt, engine))

    def _take(self, attempt: Attempt, engine: AnyEngine, message: Message) -> None:
        """An engine says something of a product."""
        if message["type"] == "begun" and engine is self.here:
            attempt.lane = frozenset(message["lane"])
            self._load.foresee(attempt, message["seconds"])
            attempt.begun_at = read_clock()
            attempt.waited_seconds = time.perf_counter() - attempt.entered_at
            self.advance()
        elif message["type"] not in FINAL_TYPES:
            attempt.on_message(message)
        else:
            self.loads[engine.id].runs.remove(attempt)
            if isinstance(engine, ClusterNode):
                self._take_from_node(attempt, engine, {**message, "job": attempt.request.job})
                return
            if "b_on" in message:
                self.host.learn(attempt, message)
            self._end(attempt, message)

    def _take_from_node(self, attempt: Attempt, node: ClusterNode, message: dict[str, Any]) -> None:
        """A node has ended a product, or is lost."""
        if message["type"] == "failed" and message["kind"] in _NODE_FAILURES:
            if attempt.stopped is None:
                self._move(attempt, message)
                return
            message["type"] = "cancelled"  # its engine was ended to stop it
        if message["type"] == "succeeded":
            message["plan"] = self._cluster.learn(attempt, node, message)
        self._end(attempt, message)

    def _move(self, attempt: Attempt, failure: Message) -> None:
        """Have another engine compute a product whose node is lost, from the first row on."""
        attempt.losses += 1
        chosen = self._cluster.choose(attempt, {}) if attempt.losses <= MOST_LOSSES else None
        if chosen is None:
            self._end(attempt, failure)
            return
        offer, engine = chosen
        job = attempt.request.job
        logger.warning("product %s goes elsewhere: %s", job, failure["message"])
        if attempt.request.row_step:
            attempt.on_message({"type": "again", "job": job})
        self._start(attempt, engine, offer.seconds)

    def _end(self, attempt: Attempt, message: Message) -> None:
        """A product has ended: learn from it how long the next ones of its kind take."""
        for hold in attempt.holds:
            hold.release()
        attempt.ended_at = read_clock()
        began_at = attempt.begun_at or attempt.sent_at
        if message["type"] == "succeeded" and began_at is not None:
            self.past.learn_run(attempt, attempt.ended_at - began_at)
        attempt.end(message)
        self.advance()
        # Counted once who waits for the answer has it.
        waited_seconds, size = attempt.waited_seconds, attempt.request.size
        asyncio.get_running_loop().call_soon(self.metrics.record_lane, waited_seconds, size)
