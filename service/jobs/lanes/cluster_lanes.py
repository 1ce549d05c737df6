"""Which engine of a cluster computes a product: the one that should end it first."""

from collections.abc import Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from wavetrim.scheduler.engine.messages import Message, RunRequest
from wavetrim.scheduler.options import NO_OPTIONS, PlanOptions
from wavetrim.scheduler.problem import ITEM_BYTES
from wavetrim.service.clock import read_clock
from wavetrim.service.engine.cluster import ClusterNode
from wavetrim.service.jobs.queue import AnyEngine, Attempt

if TYPE_CHECKING:
    from wavetrim.service.jobs.lanes.running import RunningProducts

NODE_RUNS: Final = 2
"""Products that a node may have at once: the operands of one travel while another is computed."""

_MEMORY_SHARE: Final = 0.5
"""Largest share of a node's memory for B; chosen, so that two blocks fit, too."""


class ClusterLanes:
    """Chooses engines for products. To be used from one event loop."""

    def __init__(self, engines: "RunningProducts") -> None:
        self._engines, self._plans = engines, engines.plans

    def find(self, request: RunRequest) -> dict[str, float]:
        """The seconds of a product on each engine that may compute it, this machine's first.

        For a new shape this is slow: it is called in a thread.
        """
        here = self._engines.here
        here_seconds = self._plans.find_seconds(request, self._plans.find_profile(request))
        found = {}
        for node in self._list_able(request):
            seconds = self._plans.find_seconds(request, node.profile)
            if seconds is not None:
                found[node.id] = _add_network(request, node, seconds)
        if here_seconds is None:
            return {here.id: 0.0}  # the engine says what is wrong
        return {here.id: request.products * here_seconds, **found}

    def is_known(self, request: RunRequest) -> bool:
        """Whether `find` answers at once."""
        here, nodes = self._plans.find_profile(request), self._list_able(request)
        profiles = [here, *(node.profile for node in nodes)]
        return all(self._plans.knows(request, profile) for profile in profiles)

    def _list_able(self, request: RunRequest) -> list[ClusterNode]:
        """The nodes that may compute a product; none if its options name kernel or F."""
        named = request.options not in (NO_OPTIONS, PlanOptions(accuracy=request.options.accuracy))
        # Blocks of rows are sent: each would read all of a column-major file. A stack has no rows
        # of one product.
        by_columns = isinstance(request.a.slab, str) and request.a.fortran_order
        if named or request.cpu_only or by_columns or request.out.stack is not None:
            return []
        b_bytes = request.a.columns * request.out.columns * ITEM_BYTES[request.out.dtype]
        nodes = tuple(self._engines.nodes.values())  # they come and go meanwhile
        return [one for one in nodes if b_bytes <= _MEMORY_SHARE * one.memory_bytes]

    def choose(
        self, attempt: Attempt, reserved: Mapping[str, float]
    ) -> tuple[float, AnyEngine] | None:
        """The engine that should end a product first, given what each has to do before.

        Returns:
            The product's seconds there, and the engine, this machine's if several are equal; None
            if none is ready.
        """
        found = []
        for engine_id, seconds in self.find(attempt.request).items():
            if (engine := self._engines.find_engine(engine_id)) is not None:
                busy_seconds = self._engines.loads[engine_id].find_busy()
                busy_seconds += reserved.get(engine_id, 0.0)
                found.append((busy_seconds + seconds, seconds, engine))
        first = min(found, key=itemgetter(0), default=None)
        return None if first is None else first[1:]

    def has_room(self, engine_id: str, attempt: Attempt, reserved: Mapping[str, float]) -> bool:
        """Whether an engine may have a product now."""
        if engine_id in reserved:
            return False
        load = self._engines.loads[engine_id]
        if engine_id == self._engines.here.id:
            return load.has_room(attempt)
        return len(load.runs) < NODE_RUNS

    def learn(self, attempt: Attempt, node: ClusterNode, message: Message) -> dict[str, Any]:
        """Learn from a node's success for later products; returns its plan with the node."""
        node.resident = frozenset(message.get("resident", ()))
        if attempt.is_alone and not attempt.losses and attempt.sent_at is not None:
            # Its time says how fast the node is.
            seconds = read_clock() - attempt.sent_at
            node.note_run(expected_seconds=attempt.seconds, measured_seconds=seconds)
        plan = message["plan"]
        predicted = {**plan["predicted"], "total_seconds": attempt.seconds}
        return {**plan, "predicted": predicted, "node": {"id": node.id, "host": node.host}}


def _add_network(request: RunRequest, node: ClusterNode, computing_seconds: float) -> float:
    """The seconds of a product at a node, with the network, and as its newest runs correct them."""
    m, n, k = request.out.rows, request.out.columns, request.a.columns
    in_columns, item_bytes = k + (0 if request.c is None else n), ITEM_BYTES[request.out.dtype]
    return node.factor * node.network.find_seconds(
        computing_seconds,
        b_bytes=0 if request.b_key in node.resident else k * n * item_bytes,
        in_bytes=m * in_columns * item_bytes,
        out_bytes=m * n * item_bytes,
    )
