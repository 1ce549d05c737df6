"""Which engines of a cluster compute a product: the one that ends it first, or several."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from wavetrim.scheduler.engine.messages import Message, RunRequest
from wavetrim.scheduler.planning.placing import Share, choose_shares
from wavetrim.service.engine.fleet import Fleet
from wavetrim.service.jobs.lanes.estimates import Estimates
from wavetrim.service.jobs.lanes.load import Loads
from wavetrim.service.jobs.lanes.spread import Spread
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

    def choose(
        self, turn: Turn, rows: range, reserved: Mapping[str, float], *, may_spread: bool
    ) -> Sequence[Share]:
        """Choose who computes some rows of a product, given what each engine has to do before.

        Args:
            turn: The product.
            rows: The rows.
            reserved: Seconds of each engine that are reserved for products that go first.
            may_spread: Whether several engines may share the rows.
        """
        offers = []
        for offer in self._estimates.find(turn.request):
            if self._fleet.find(offer.engine) is not None:
                busy_seconds = self._loads.find(offer.engine).find_busy()
                busy_seconds += reserved.get(offer.engine, 0.0)
                offers.append(replace(offer, busy_seconds=busy_seconds))
        return choose_shares(rows, offers, may_spread=may_spread) if offers else ()

    def has_room(self, share: Share, turn: Turn, reserved: Mapping[str, float]) -> bool:
        """Whether an engine may have its share of a product now."""
        if share.engine in reserved or self._fleet.find(share.engine) is None:
            return False
        load = self._loads.find(share.engine)
        if share.engine == self._fleet.here.id:
            return load.has_room(turn)
        return len(load.runs) < NODE_RUNS

    def start(self, turn: Turn, shares: Sequence[Share], take: Callable[[Message], None]) -> None:
        """Have a product computed by several engines, or by a node.

        Args:
            turn: The product.
            shares: Who computes which rows.
            take: Receives the messages about it.
        """
        spread = Spread(
            turn.request,
            self._fleet,
            choose=lambda rows: self.choose(turn, rows, {}, may_spread=True),
            begun=lambda engine, job, seconds: self._loads.find(engine).add(job, turn, seconds),
            ended=lambda engine, job: self._loads.find(engine).remove(job),
            take=take,
        )
        turn.cancel, turn.restart_engines = spread.cancel, spread.restart_engines
        spread.start(shares)
