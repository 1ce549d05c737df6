"""The order in which products reach the engines: by priority, then by age.

On one machine one product runs at a time: a plan may use every device of it, so two products at
once would only slow each other down. Jobs and products in one call wait in the lane alike. A few
small products are sent ahead, so that the engine has the next one when it is done with one, without
a message in between.

With a cluster, a product goes where it should end first, counting what is there before it. One that
waits for an engine keeps its place there: products behind it may go to other engines, never before
it to that one. A product is spread over the engines that are idle, if nothing else waits or it has
priority, and that saves enough.
"""

import asyncio
import heapq
import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from wavetrim.scheduler.engine.messages import FINAL_TYPES, RunRequest
from wavetrim.scheduler.planning.placing import Share, choose_shares
from wavetrim.service.engine.fleet import Fleet
from wavetrim.service.engine.supervisor import Event
from wavetrim.service.jobs.estimates import Estimates
from wavetrim.service.jobs.load import Load
from wavetrim.service.jobs.spread import Spread
from wavetrim.service.jobs.turn import Turn, settle
from wavetrim.service.storage.memory.room import Room
from wavetrim.service.threads import run_to_end

logger = logging.getLogger(__name__)


NODE_RUNS: Final = 2
"""Products that a node may have at once: the operands of one travel while another is computed."""

LOOK_AHEAD: Final = 32
"""Products that are looked at each time: those behind wait for the next look."""

STOP_GRACE_SECONDS: Final = 5.0
"""How long the engine may take to stop a product before it is killed."""


class Lane:
    """Lets products wait for the engines and hands them over in order.

    To be used from one event loop.

    Args:
        fleet: The engines.

    Attributes:
        waiting: How many products wait.
        on_answer: Called with a product that an engine has answered, once who waits was told.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._here = fleet.here
        self._estimates = Estimates(fleet)
        self._waiting: list[_Entry] = []
        self._numbers = itertools.count()
        self._running: dict[str, Turn] = {}
        self._loads: dict[str, Load] = {self._here.id: Load()}
        self._estimating: set[asyncio.Task[None]] = set()
        self.waiting = 0
        self.on_answer: Callable[[Turn, Event], None] | None = None

    @property
    def running(self) -> int:
        """How many products the engines have."""
        return len(self._running)

    @property
    def most_runs(self) -> int:
        """How many jobs may be on their way at a time."""
        return 1 + NODE_RUNS * len(self._fleet.nodes)

    def enter(
        self,
        request: RunRequest,
        rooms: Sequence[Room] = (),
        *,
        since: float,
        priority: int = 0,
        on_event: Callable[[Event], None] | None = None,
    ) -> Turn:
        """Let a product wait for its turn; it may begin at once.

        Args:
            request: The product; its id is not in the lane yet.
            rooms: The memory that it lies in: the engine holds it until it has answered or is
                gone, whoever still waits for the product.
            since: When its caller began to wait, UTC seconds: the older one goes first.
            priority: The higher one goes first.
            on_event: Receives the engine's messages before the final one.
        """
        turn = Turn(request, rooms, on_event, is_urgent=priority > 0)
        self.waiting += 1
        heapq.heappush(self._waiting, (-priority, since, next(self._numbers), turn))
        self.advance()
        return turn

    def advance(self) -> None:
        """Send what may be sent: called whenever an engine or a product's turn has changed."""
        if self._fleet.has_nodes:
            self._advance_everywhere()
            return
        load = self._loads[self._here.id]
        while self._waiting and self._here.ready and load.has_room(self._waiting[0][3]):
            turn = heapq.heappop(self._waiting)[3]
            if not turn.begun.done():  # otherwise it was given up
                self._start_here(turn)

    async def stop(self, turn: Turn) -> None:
        """Stop a product: by not sending it, by asking its engine, at last by ending that.

        When this returns, the product has its final message.
        """
        self.give_up(turn)
        if turn.final.done():
            return
        turn.cancel()
        await asyncio.wait({turn.final}, timeout=STOP_GRACE_SECONDS)
        if not turn.final.done():
            reason = f"it did not stop a product within {STOP_GRACE_SECONDS:g} s"
            await turn.restart_engines(reason)
            await asyncio.wait({turn.final}, timeout=STOP_GRACE_SECONDS)

    def cancel(self, turn: Turn) -> None:
        """Ask the engine that has a product to stop it; one that waits is given up."""
        self.give_up(turn)
        turn.cancel()

    def give_up(self, turn: Turn) -> None:
        """Leave a product out that waits; one that was sent to an engine goes on."""
        if not turn.begun.done():
            self._give_up(turn)

    async def wait_idle(self) -> None:
        """Wait until no engine has a product."""
        while self._running:
            await asyncio.wait({turn.final for turn in self._running.values()})

    def _advance_everywhere(self) -> None:
        """Look through those that wait, in order; each keeps its place at its engine."""
        passed: list[_Entry] = []
        reserved: dict[str, float] = {}
        while self._waiting and len(passed) < LOOK_AHEAD:
            entry = heapq.heappop(self._waiting)
            turn = entry[3]
            if turn.begun.done():
                continue
            if not self._estimates.has_all(turn.request):
                self._estimate(turn)
                passed.append(entry)
                continue
            alone = not passed and not self._waiting
            shares = self._choose(turn, turn.rows, reserved, may_spread=alone or turn.is_urgent)
            if shares and all(self._has_room(share, turn, reserved) for share in shares):
                self._start(turn, shares)
                continue
            for share in shares:
                reserved[share.engine] = reserved.get(share.engine, 0.0) + share.seconds
            passed.append(entry)
        for entry in passed:
            heapq.heappush(self._waiting, entry)

    def _has_room(self, share: Share, turn: Turn, reserved: Mapping[str, float]) -> bool:
        if share.engine in reserved or self._fleet.find(share.engine) is None:
            return False
        load = self._find_load(share.engine)
        if share.engine == self._here.id:
            return load.has_room(turn)
        return len(load.runs) < NODE_RUNS

    def _choose(
        self, turn: Turn, rows: range, reserved: Mapping[str, float], *, may_spread: bool
    ) -> Sequence[Share]:
        """Who should compute some rows of a product, by what each engine has to do before."""
        offers = []
        for offer in self._estimates.find(turn.request):
            if self._fleet.find(offer.engine) is not None:
                busy_seconds = self._find_load(offer.engine).find_busy()
                busy_seconds += reserved.get(offer.engine, 0.0)
                offers.append(replace(offer, busy_seconds=busy_seconds))
        return choose_shares(rows, offers, may_spread=may_spread) if offers else ()

    def _estimate(self, turn: Turn) -> None:
        """Find out, in a thread, what the engines would take for a product; then look again."""

        async def estimate() -> None:
            try:
                await run_to_end(self._estimates.find, turn.request)
            finally:
                turn.is_estimated = False
            self.advance()

        if not turn.is_estimated:
            turn.is_estimated = True
            task = asyncio.create_task(estimate(), name="estimate")
            self._estimating.add(task)
            task.add_done_callback(self._estimating.discard)

    def _start(self, turn: Turn, shares: Sequence[Share]) -> None:
        if len(shares) == 1 and shares[0].engine == self._here.id:
            self._start_here(turn, shares[0].seconds)
            return
        self._begin(turn)
        spread = Spread(
            turn.request,
            self._fleet,
            choose=lambda rows: self._choose(turn, rows, {}, may_spread=True),
            begun=lambda engine, job, seconds: self._find_load(engine).add(job, turn, seconds),
            ended=lambda engine, job: self._find_load(engine).remove(job),
            take=lambda event: self._take(turn, event),
        )
        turn.cancel, turn.restart_engines = spread.cancel, spread.restart_engines
        spread.start(shares)

    def _start_here(self, turn: Turn, seconds: float = 0.0) -> None:
        job, here = turn.request.job, self._here
        self._begin(turn)
        self._loads[here.id].add(job, turn, seconds)
        turn.cancel, turn.restart_engines = lambda: here.cancel(job), here.restart
        here.start_run(turn.request.as_message(), lambda event: self._take_here(turn, event))

    def _begin(self, turn: Turn) -> None:
        self._running[turn.request.job] = turn
        self.waiting -= 1
        turn.holds = [room.hold("engine") for room in turn.rooms]
        turn.begin()

    def _take_here(self, turn: Turn, event: Event) -> None:
        if event["type"] in FINAL_TYPES:
            self._loads[self._here.id].remove(turn.request.job)
        self._take(turn, event)

    def _take(self, turn: Turn, event: Event) -> None:
        if event["type"] not in FINAL_TYPES:
            if turn.on_event is not None:
                turn.on_event(event)
            return
        for hold in turn.holds:
            hold.release()
        del self._running[turn.request.job]
        settle(turn.final, event)
        self.advance()
        if self.on_answer is not None:
            asyncio.get_running_loop().call_soon(self.on_answer, turn, event)

    def _give_up(self, turn: Turn) -> None:
        self.waiting -= 1
        turn.begin()
        settle(turn.final, {"type": "cancelled", "job": turn.request.job})

    def _find_load(self, engine_id: str) -> Load:
        return self._loads.setdefault(engine_id, Load())


_Entry = tuple[int, float, int, Turn]


def describe_timeout(limit_seconds: float, *, has_gpu: bool, job: str) -> Event:
    """The final message of a product that was stopped at its deadline."""
    return {
        "type": "failed",
        "job": job,
        "kind": "timeout",
        "message": f"the product took longer than {limit_seconds:g} s (job_timeout_seconds)",
        "retryable": has_gpu,  # a GPU may hang where the CPU does not; the CPU is only slow
    }
