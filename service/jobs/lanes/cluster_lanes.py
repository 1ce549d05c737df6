"""Which engine of a cluster computes a product: the one that should end it first."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from wavetrim.scheduler.engine.messages import Message, RunRequest
from wavetrim.scheduler.planning.placing import Offer
from wavetrim.service.engine.fleet import Fleet
from wavetrim.service.jobs.lanes.estimates import Estimates
from wavetrim.service.jobs.lanes.load import Loads
from wavetrim.service.jobs.lanes.node_run import NodeRun
from wavetrim.service.jobs.lanes.turn import Turn

NODE_RUNS: Final = 2
"""Products that a node may have at once: the operands of one travel while another is computed."""


class ClusterLanes:
    """Chooses engines for products, and has them computed there. To be used from one event loop.

    Args:
        fleet: The engines.
        loads: What they have to do.
    """

    def __init__(self, fleet: Fleet, loads: Loads) -> None:
        self._fleet = fleet
        self._loads = loads
        self._estimates = Estimates(fleet)

    @property
    def most_runs(self) -> int:
        """How many jobs may be on their way to nodes at a time."""
        return NODE_RUNS * len(self._fleet.nodes)

    def find(self, request: RunRequest) -> object:
        """Find how long each engine would take; to be called in a thread, as it may be slow."""
        return self._estimates.find(request)

    def is_known(self, turn: Turn) -> bool:
        """Whether `choose` can be called without `find`."""
        return self._estimates.has_all(turn.request)

    def choose(self, turn: Turn, reserved: Mapping[str, float]) -> Offer | None:
        """The engine that should end a product first, given what each has to do before.

        Args:
            turn: The product.
            reserved: Seconds of each engine that are reserved for products that go first.

        Returns:
            Its offer, this machine's if several are equal; None if no engine is ready.
        """
        offers = []
        for offer in self._estimates.find(turn.request):
            if self._fleet.find(offer.engine) is not None:
                busy_seconds = self._loads.find(offer.engine).find_busy()
                busy_seconds += reserved.get(offer.engine, 0.0)
                offers.append(replace(offer, busy_seconds=busy_seconds))
        return min(offers, key=lambda offer: offer.end_seconds, default=None)

    def has_room(self, engine_id: str, turn: Turn, reserved: Mapping[str, float]) -> bool:
        """Whether an engine may have a product now."""
        if engine_id in reserved or self._fleet.find(engine_id) is None:
            return False
        load = self._loads.find(engine_id)
        if engine_id == self._fleet.here.id:
            return load.has_room(turn)
        return len(load.runs) < NODE_RUNS

    def start(
        self,
        turn: Turn,
        offer: Offer,
        *,
        take: Callable[[Message], None],
        lost: Callable[[Message], None],
    ) -> None:
        """Have a product computed by a node.

        Args:
            turn: The product.
            offer: The node's offer, as chosen just now.
            take: Receives the messages about it.
            lost: Called with the failure of a node that is lost.
        """
        (node,) = (one for one in self._fleet.nodes if one.id == offer.engine)
        load = self._loads.find(node.id)
        run = NodeRun(turn.request, node, seconds=offer.seconds, take=take, lost=lost)
        turn.cancel, turn.restart_engine = run.cancel, run.restart_engine
        was_idle = load.add(run.job, turn, offer.seconds)
        run.start(was_idle=was_idle, ended=load.remove)
