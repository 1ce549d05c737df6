"""An attempt at a product: it waits in the queue, and then it is part of an engine's load."""

import asyncio
import itertools
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from wavetrim.scheduler.engine.messages import Message, RunRequest
from wavetrim.scheduler.options import NO_OPTIONS
from wavetrim.scheduler.planning.device_sets import DeviceSet
from wavetrim.service.clock import read_clock
from wavetrim.service.engine.cluster import ClusterNode
from wavetrim.service.engine.engine import Engine
from wavetrim.service.jobs.estimate import Kind
from wavetrim.service.storage.memory.extent import Extent, Hold

if TYPE_CHECKING:
    from wavetrim.service.jobs.queue import Queue


AnyEngine: TypeAlias = Engine | ClusterNode
"""What computes products, here or on a node."""

AHEAD: Final = 8
"""Small products that the engine may have at once; chosen."""

_LEAST_SECONDS: Final = 1e-3
"""Least time that a product is expected to go on until it has ended; chosen."""


@dataclass(slots=True, eq=False)
class Attempt:
    """A product that waits in the queue, and that an engine has then; tried again if that fails.

    Whoever wants to hear of it has a class of its own, with some of the methods `on_*`. A job waits
    from when it is accepted. Until its matrices are in memory it is not *ready*: its request then
    tells their shapes, not where they lie.

    Attributes:
        request: The product.
        caller: Whose it is.
        since: When its caller began to wait, UTC seconds.
        predicted_seconds: How long it should take.
        priority: The higher one goes first within its caller.
        until: When it is stopped as "deadline", by `time.perf_counter`.
        is_being_estimated: Whether a thread is finding how long the engines would take.
        is_ready: Whether it can be sent.
        extents: The memory that it lies in.
        queue: Where it waits; None if it does not.
        entered_at: When it began to wait, by `time.perf_counter`.
        waited_seconds: How long it has waited until it was sent, and for its devices if they were
            busy.
        stopped: Why it was stopped; None if it was not. A "timeout" stops one try only.
        holds: Keep its memory while an engine has the product.
        engine: The engine that has or had it; None before it was sent.
        run_id: The id that the engine knows it by.
        seconds: How long it should take there.
        lane: The devices that work at it; None while that is not known, or for all.
        ends_at: When it should end there, UTC seconds.
        is_alone: Whether the engine had nothing else to do when it was sent.
        losses: How many nodes were lost while they had it.
        sent_at: When it was sent to an engine, UTC seconds; None before.
        begun_at: When devices began with it; None before, and if that is not told.
        ended_at: When it ended.
        final: Becomes the engine's final message; "cancelled" if it was given up before.
    """

    request: RunRequest
    _: KW_ONLY
    caller: str = ""
    since: float = 0.0
    predicted_seconds: float = 0.0
    priority: int = 0
    until: float = math.inf
    is_being_estimated: bool = False
    is_ready: bool = False
    extents: Sequence[Extent] = ()
    queue: "Queue | None" = None
    entered_at: float = field(default_factory=time.perf_counter)
    waited_seconds: float = 0.0
    stopped: str | None = None
    holds: Sequence[Hold] = ()
    engine: AnyEngine | None = None
    run_id: str = ""
    seconds: float = 0.0
    lane: DeviceSet | None = None
    ends_at: float = 0.0
    is_alone: bool = False
    losses: int = 0
    sent_at: float | None = None
    begun_at: float | None = None
    ended_at: float | None = None
    final: asyncio.Future[Message] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    def on_wanted(self) -> None:
        """It would begin now if it were ready."""

    def on_begin(self) -> None:
        """It is sent to an engine."""

    def on_message(self, message: Message) -> None:
        """The engine says something before the final message."""

    def on_slow(self) -> None:
        """Called now and then while it waits and runs, unless it is quick."""

    @property
    def kind(self) -> Kind:
        """Its kind, by which seconds are learned."""
        out, k, devices = self.request.out, self.request.a.columns, self.request.options.devices
        return out.dtype, out.rows.bit_length(), out.columns.bit_length(), k.bit_length(), devices

    @property
    def needs_no_device(self) -> bool:
        """Whether the engine's main thread computes it, even while its devices are busy."""
        request = self.request
        return request.options == NO_OPTIONS and request.is_small and request.needs_one_thread

    def make_ready(self, request: RunRequest, extents: Sequence[Extent]) -> None:
        """Its next try may begin: its matrices lie in memory now.

        Args:
            request: The product, with their addresses; its id is not in the lane yet.
            extents: The memory that they lie in. It is held for the engine until that has answered
                or is gone, even if nobody waits for the product any more.
        """
        if self.stopped == "timeout":
            self.stopped = None
        self.engine, self.losses = None, 0
        self.sent_at = self.begun_at = self.ended_at = None
        self.final = asyncio.get_running_loop().create_future()
        self.request, self.extents, self.is_ready = request, extents, True
        self.entered_at = time.perf_counter()

    def change_priority(self, priority: int) -> None:
        """It goes before or after others of its caller from now on."""
        queue = self.queue
        if queue is not None:
            queue.remove(self)
        self.priority = priority
        if queue is not None:
            queue.add(self)

    def end(self, message: Message) -> None:
        """Give it its final message, unless who waited for that was cancelled."""
        if not self.final.done():
            self.final.set_result(message)


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
