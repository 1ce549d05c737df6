"""The products that engines have: what each has to do, and how they are sent and ended.

A product whose node is lost waits again, and goes to another engine.
"""

import asyncio
import itertools
import logging
import secrets
import time
from collections import defaultdict
from collections.abc import Coroutine, Iterable, Mapping
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
from wavetrim.service.jobs.lanes.cluster_lanes import ClusterLanes
from wavetrim.service.jobs.lanes.host_lanes import HostLanes
from wavetrim.service.jobs.plans import InlineProducts, Plans
from wavetrim.service.jobs.queue import CANCELLED, AnyEngine, Attempt, Queue
from wavetrim.service.settings import Settings
from wavetrim.service.telemetry.metrics import Metrics

logger = logging.getLogger(__name__)

AHEAD: Final = 8
"""Small products that the engine may have at once; chosen."""

_LEAST_SECONDS: Final = 1e-3
"""Least time that a product is expected to go on until it has ended; chosen."""

MOST_LOSSES: Final = 32
"""Nodes that a product may lose before it fails; chosen."""

_NODE_FAILURES: Final = frozenset({"node", "engine", "gone", "memory", "device", "internal"})
"""Kinds of failure that are a node's own: another engine may succeed."""


class Load:
    """What one engine has to do: its products, in the order in which they were sent."""

    def __init__(self) -> None:
        self.runs: list[Attempt] = []

    def add(self, run: Attempt) -> None:
        """A product is sent to the engine: it comes after what its devices have to do."""
        run.is_alone = not self.runs
        self.runs.append(run)
        self.foresee(run, run.seconds)

    def foresee(self, run: Attempt, seconds: float) -> None:
        """A product ends some seconds after its devices have done what was sent before."""
        now = read_clock()
        earlier = itertools.takewhile(lambda other: other is not run, self.runs)
        begins = [
            max(now + _LEAST_SECONDS, other.ends_at)
            for other in earlier
            if run.lane is None or other.lane is None or run.lane & other.lane
        ]
        run.ends_at = max(begins, default=now) + seconds

    @property
    def _large(self) -> int:
        return sum(not run.request.is_small for run in self.runs)

    @property
    def is_full(self) -> bool:
        """Whether no further product has room: a few small ones have, or a single other one."""
        return len(self.runs) >= AHEAD or self._large > 0

    @property
    def has_many_small(self) -> bool:
        """Whether the engine has as many small products as it may."""
        return len(self.runs) - self._large >= AHEAD

    def has_room(self, attempt: Attempt) -> bool:
        """Whether one more product may be sent."""
        return not self.runs or (attempt.request.is_small and not self.is_full)

    def may_follow(self, lane: DeviceSet) -> bool:
        """Whether one more product may be sent to some devices, of which each has one at most.

        None may while the engine has not said which devices another product takes.
        """
        lanes = [run.lane for run in self.runs]
        return (
            all(sum(one is not None and device in one for one in lanes) < 2 for device in lane)
            and None not in lanes
        )

    def find_busy(self) -> float:
        """Seconds that the engine should be busy; more than 0 while it has a product."""
        if not self.runs:
            return 0.0
        last = max(run.ends_at for run in self.runs)
        return max(_LEAST_SECONDS, last - read_clock())

    def list_busy(self, devices: Iterable[int]) -> dict[int, float]:
        """Seconds that each device should be busy; free devices are left out. Thread-safe.

        A late product is expected to go on for as long as it is late. So the longer it hangs, the
        sooner others choose another device.
        """
        now, busy = read_clock(), dict.fromkeys(devices, 0.0)
        for run in list(self.runs):  # they come and go while a thread asks for metrics
            left_seconds = max(_LEAST_SECONDS, abs(run.ends_at - now))
            for device in busy if run.lane is None else run.lane:
                busy[device] = max(busy.get(device, 0.0), left_seconds)
        return {device: seconds for device, seconds in busy.items() if seconds}


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
        self.past = Past()
        self.queue = Queue()
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

    def time_out(self, attempt: Attempt) -> None:
        """Stop a product that an engine has had for too long."""
        raise NotImplementedError

    def give_up(self, attempt: Attempt, message: Message | None = None) -> None:
        """Give up a product if it still waits; one that was sent to an engine goes on."""
        if attempt.queue is not None:
            attempt.queue.remove(attempt)
            self._let_go(attempt)  # of one whose node is lost
            attempt.end(message or CANCELLED)
            self.advance()

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Do something besides, until it is done or the service stops."""
        self.tasks.add(task := asyncio.create_task(work, name=name))
        task.add_done_callback(self.tasks.discard)
        return task

    def send(
        self, attempt: Attempt, engine: AnyEngine, seconds: float, lane: DeviceSet | None = None
    ) -> None:
        """Send a product to an engine, or to some devices of this machine.

        The final message may come before this returns.
        """
        attempt.sent_at = read_clock()
        if attempt.queue is not None:
            attempt.queue.begin(attempt)
        if not attempt.losses:  # else the same try goes on elsewhere
            attempt.holds = [extent.hold("engine") for extent in attempt.extents]
            attempt.waited_seconds = time.perf_counter() - attempt.entered_at
            attempt.on_begin()
            most_seconds, loop = self.settings.job_timeout_seconds, asyncio.get_running_loop()
            attempt.timer = loop.call_later(most_seconds, self.time_out, attempt)
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
            attempt.lane = frozenset(message["device_set"])
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
        is_lost = message["type"] == "failed" and message["kind"] in _NODE_FAILURES
        if is_lost and attempt.stopped is None and attempt.losses < MOST_LOSSES:
            self._wait_again(attempt, message)
            return
        if message["type"] == "succeeded":
            message["plan"] = self._cluster.learn(attempt, node, message)
        self._end(attempt, message)

    def _wait_again(self, attempt: Attempt, failure: Message) -> None:
        """Let a product wait again whose node is lost: it is computed from the first row on."""
        attempt.losses += 1
        logger.warning("product %s goes elsewhere: %s", attempt.request.job, failure["message"])
        if attempt.request.row_step:
            attempt.on_message({"type": "again", "job": attempt.request.job})
        attempt.engine = None
        self.queue.add(attempt)
        self.advance()

    def _let_go(self, attempt: Attempt) -> None:
        """No engine has a product any more, nor writes to its memory."""
        if attempt.timer is not None:
            attempt.timer.cancel()
        for hold in attempt.holds:
            hold.release()

    def _end(self, attempt: Attempt, message: Message) -> None:
        """A product has ended: learn from it how long the next ones of its kind take."""
        self._let_go(attempt)
        attempt.ended_at = read_clock()
        began_at = attempt.begun_at or attempt.sent_at
        if message["type"] == "succeeded" and began_at is not None:
            self.past.learn_run(attempt, attempt.ended_at - began_at)
        attempt.end(message)
        self.advance()
        # Counted once who waits for the answer has it.
        waited_seconds, size = attempt.waited_seconds, attempt.request.size
        asyncio.get_running_loop().call_soon(self.metrics.record_lane, waited_seconds, size)
