"""Attempts at products, the order in which they are made, and the queue: all that wait, by caller.

Callers take turns by work, and within a caller short products come first, unless others have waited
for long:

1. Next is a product of the caller with the least *served* seconds: the predicted seconds of all its
   products that have begun. A caller that comes back begins at the level of the product that began
   last, so nobody saves up turns by waiting, and nobody pays for what was computed while the
   devices were free.

       served(caller) = max(served before, level) + Σ predicted seconds of what begins

2. Of that caller's products it is the one with the highest response ratio, weighed by its priority.
   Of equal ones it is the oldest.

       ratio = (waited + predicted) / predicted · 2^(priority / 100)

A caller that posts ten thousand products so delays another's by at most the one that runs, and by
as much work as the other has had. A long product is overtaken by short ones of its own caller only
until it has waited some times as long as it takes.
"""

import asyncio
import heapq
import time
from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from operator import attrgetter
from typing import Final, TypeAlias

from wavetrim.scheduler.engine.messages import Message, RunRequest
from wavetrim.scheduler.options import NO_OPTIONS
from wavetrim.scheduler.planning.device_sets import DeviceSet
from wavetrim.service.clock import read_clock
from wavetrim.service.engine.cluster import ClusterNode
from wavetrim.service.engine.engine import Engine
from wavetrim.service.storage.memory.extent import Extent, Hold

AnyEngine: TypeAlias = Engine | ClusterNode
"""What computes products, here or on a node."""

Kind: TypeAlias = tuple[str, int, int, int, str | None]
"""Element type, bits of M, N and K, and the devices asked for."""

PRIORITY_DOUBLES: Final = 100
"""What a priority must be higher by for twice the ratio. Chosen: of ±1000, ±1 is 0.7%."""

LEAST_SECONDS: Final = 1e-5
"""Least time that a product is predicted to take here, so that the ratio is finite; chosen."""

CANCELLED: Final[Message] = {"type": "cancelled"}
"""The final message of a product that nobody wants any more."""

_age = attrgetter("since")


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
        is_being_estimated: Whether a thread is finding how long the engines would take.
        is_ready: Whether it can be sent.
        extents: The memory that it lies in.
        queue: Where it waits; None if it does not.
        entered_at: When it began to wait, by `time.perf_counter`.
        waited_seconds: How long it has waited until it was sent, and for its devices if they were
            busy.
        stopped: The final message that it was stopped with; None if it was not.
        holds: Keep its memory while an engine has the product.
        engine: The engine that has or had it; None before it was sent.
        run_id: The id that the engine knows it by.
        seconds: How long it should take there.
        lane: The devices that work at it; None while that is not known, or for all.
        ends_at: When it should end there, UTC seconds.
        is_alone: Whether the engine had nothing else to do when it was sent.
        losses: How many nodes were lost while they had it.
        sent_at: When it was sent to an engine, UTC seconds; None before.
        timer: Stops it when it has been at an engine for too long.
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
    is_being_estimated: bool = False
    is_ready: bool = False
    extents: Sequence[Extent] = ()
    queue: "Queue | None" = None
    entered_at: float = field(default_factory=time.perf_counter)
    waited_seconds: float = 0.0
    stopped: Message | None = None
    holds: Sequence[Hold] = ()
    engine: AnyEngine | None = None
    run_id: str = ""
    seconds: float = 0.0
    lane: DeviceSet | None = None
    ends_at: float = 0.0
    is_alone: bool = False
    losses: int = 0
    sent_at: float | None = None
    timer: asyncio.TimerHandle | None = None
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
        if self.stopped is not None and self.stopped.get("retryable"):
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


def make_failure(kind: str, message: str, *, retryable: bool = False) -> Message:
    """The final message of a product that has failed, as an engine's."""
    return {"type": "failed", "kind": kind, "message": message, "retryable": retryable}


def find_ratio(waits: Attempt, now: float) -> float:
    """The response ratio of a product, weighed by its priority."""
    predicted = max(LEAST_SECONDS, waits.predicted_seconds)
    waited = max(0.0, now - waits.since)
    return float((waited + predicted) / predicted * 2 ** (waits.priority / PRIORITY_DOUBLES))


def rank(
    waiting: Iterable[Attempt], served: Mapping[str, float], *, now: float, most: int
) -> list[Attempt]:
    """The products to begin next, in order, as if none came and the ratios stayed as they are.

    Of equal ones the first of those that wait goes first. A caller that was not served is at 0.
    """
    by_caller: dict[str, list[Attempt]] = {}
    for one in waiting:
        by_caller.setdefault(one.caller, []).append(one)
    turns: list[tuple[float, float, str]] = []
    for caller, own in by_caller.items():
        # The next one is the last of the list.
        own.sort(key=lambda one: (find_ratio(one, now), -one.since))
        turns.append((served.get(caller, 0.0), own[-1].since, caller))
    heapq.heapify(turns)
    ranked: list[Attempt] = []
    while turns and len(ranked) < most:
        seconds, _, caller = heapq.heappop(turns)
        own = by_caller[caller]
        ranked.append(first := own.pop())
        if own:
            level = seconds + max(LEAST_SECONDS, first.predicted_seconds)
            heapq.heappush(turns, (level, own[-1].since, caller))
    return ranked


class Queue:
    """Those that wait, and what each caller was served since nobody waited.

    To be used from one event loop.
    """

    def __init__(self) -> None:
        # By caller, predicted seconds and priority: of those alike the oldest goes first.
        self._waiting: dict[str, dict[tuple[float, int], list[Attempt]]] = {}
        self._served: dict[str, float] = {}
        self._count, self._level = 0, 0.0

    def __len__(self) -> int:
        return self._count

    def list_all(self) -> list[Attempt]:
        """All that wait. Any thread may call this."""
        # Each copy is made at once: other code of Python does not run meanwhile.
        kinds = [kind for kinds in list(self._waiting.values()) for kind in list(kinds.values())]
        return [attempt for kind in kinds for attempt in list(kind)]

    @property
    def callers(self) -> Collection[str]:
        """Those of whom products wait."""
        return self._waiting.keys()

    def list_kinds(self, caller: str) -> list[list[Attempt]]:
        """What waits of a caller: products that are predicted alike, the oldest first."""
        return list(self._waiting.get(caller, {}).values())

    def find_served(self, caller: str) -> float:
        """The seconds that a caller was served, or would begin with."""
        served = self._served.get(caller, 0.0)
        return served if caller in self._waiting else max(served, self._level)

    def add(self, attempt: Attempt) -> None:
        """Let a product wait, unless it does already."""
        if attempt.queue is not None:
            return
        attempt.queue, caller = self, attempt.caller
        if caller not in self._waiting:
            self._waiting[caller] = {}
            self._served[caller] = max(self._served.get(caller, 0.0), self._level)
        kind = attempt.predicted_seconds, attempt.priority
        insort(self._waiting[caller].setdefault(kind, []), attempt, key=_age)
        self._count += 1

    def begin(self, attempt: Attempt) -> None:
        """A product begins: its caller is charged with it."""
        self._level = self._served[attempt.caller]
        self._served[attempt.caller] += max(LEAST_SECONDS, attempt.predicted_seconds)
        self.remove(attempt)

    def remove(self, attempt: Attempt) -> None:
        """A product does not wait any more."""
        if attempt.queue is not self:
            return
        attempt.queue = None
        kinds, kind = self._waiting[attempt.caller], (attempt.predicted_seconds, attempt.priority)
        attempts = kinds[kind]
        index = bisect_left(attempts, attempt.since, key=_age)
        while attempts[index] is not attempt:
            index += 1
        del attempts[index]
        self._count -= 1
        if not attempts:
            del kinds[kind]
        if not kinds:
            del self._waiting[attempt.caller]
            self._forget()

    def list_first(self, most: int) -> list[Attempt]:
        """The products to begin next, in order."""
        kinds = [kind for of_caller in self._waiting.values() for kind in of_caller.values()]
        seen = [attempt for kind in kinds for attempt in kind[:most]]
        return seen if len(seen) < 2 else rank(seen, self._served, now=read_clock(), most=most)

    def _forget(self) -> None:
        """Forget what callers were served that would begin at the level anyway."""
        if not self._waiting:
            self._served.clear()
            self._level = 0.0
        elif len(self._served) > 2 * len(self._waiting):
            for caller, seconds in list(self._served.items()):
                if seconds <= self._level and caller not in self._waiting:
                    del self._served[caller]
