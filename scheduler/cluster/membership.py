"""Which nodes there are, and the network to each: they join, their engines start, they leave.

A node computes for wavetrim if it has Ray's resource of that name. Its engine is an actor that has
all of its processors and GPUs. When it ends, Ray starts it again, and it is connected again.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import ray
from ray.exceptions import ActorUnavailableError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from wavetrim.scheduler.cluster.node import NodeEngine
from wavetrim.scheduler.cluster.node_operands import KEPT_SHARE, STORE_SHARE, NodeOperands
from wavetrim.scheduler.cluster.start import RESOURCE
from wavetrim.scheduler.errors import NodeLost
from wavetrim.scheduler.planning.placing import Network

logger = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 0.5
"""Time between two looks at Ray's list of nodes; chosen."""

_START_SECONDS: Final = 120.0
"""Limit for a node's engine to start and describe itself; chosen."""

_CONTROL_SECONDS: Final = 30.0
"""Limit of a call that is answered while a product runs; chosen."""


_CALLS: Final = 9
_BYTES: Final = 16 * 2**20
_COPIES: Final = 5
"""Empty calls, bytes of a block, and copies of it; chosen."""


@dataclass(frozen=True, slots=True)
class NodeHandle:
    """A node that is ready: its id of Ray's, its engine, and the operands that it keeps.

    `store_bytes` is the size of Ray's store there.
    """

    id: str
    actor: Any
    network: Network
    store_bytes: int
    operands: NodeOperands


class Membership:
    """Watches the nodes of a cluster, and keeps an engine on each.

    `tell` receives a message for each node that is ready ("node") or gone ("node_gone").
    """

    def __init__(self, tell: Callable[[Mapping[str, Any]], None]) -> None:
        self._tell = tell
        self._nodes: dict[str, NodeHandle] = {}
        self._connecting: set[str] = set()
        self._actors: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._measuring = threading.Lock()

    def find(self, node_id: str) -> NodeHandle:
        """A node.

        Raises:
            NodeLost: It is not ready any more.
        """
        node = self._nodes.get(node_id)
        if node is None:
            raise NodeLost(f"node {node_id[:12]} has left")
        return node

    def watch(self) -> None:
        """Look for nodes that join and leave, until the process ends."""
        stop = threading.Event()
        while not stop.wait(_LOOK_SECONDS):
            try:
                self.look()
            except RayError:
                logger.exception("Ray's list of nodes cannot be read")

    def lose(self, node_id: str, reason: str) -> None:
        """Give up a node that failed. It is connected again before it gets more work."""
        with self._lock:  # also while it is told: the service hears of an end after its begin
            if self._nodes.pop(node_id, None) is not None:
                logger.warning("node %s: %s", node_id[:12], reason)
                self._tell({"type": "node_gone", "node": node_id, "reason": reason})

    def end(self, node_id: str, reason: str) -> None:
        """Kill a node's engine: its runs are lost, and Ray starts another one."""
        actor = self._actors.get(node_id)
        if actor is not None:
            ray.kill(actor, no_restart=False)
        self.lose(node_id, reason)

    def look(self) -> None:
        """Look at Ray's list of nodes once: connect to those that are new, give up those gone.

        Raises:
            RayError: The list cannot be read.
        """
        alive = {
            node["NodeID"]: node
            for node in ray.nodes()  # type: ignore[no-untyped-call]
            if node["Alive"] and node["Resources"].get(RESOURCE)
        }
        with self._lock:
            gone = [one for one in self._actors if one not in alive]
            for node_id in gone:
                del self._actors[node_id]
            new = [one for one in alive if one not in self._nodes and one not in self._connecting]
            self._connecting.update(new)
        for node_id in gone:
            self.lose(node_id, "it has left the cluster")
        for node_id in new:
            threading.Thread(
                target=self._connect,
                args=(node_id, alive[node_id]),
                name="node-connection",
                daemon=True,
            ).start()

    def _connect(self, node_id: str, node: Mapping[str, Any]) -> None:
        """Start a node's engine, or wait until Ray has restarted it, and ask for its devices."""
        try:
            actor = self._actors.get(node_id)
            if actor is None:
                actor = start_engine(node_id, node["Resources"])
                with self._lock:
                    self._actors[node_id] = actor
            known = ray.get(actor.describe.remote(), timeout=_START_SECONDS)
            store_bytes = int(node["Resources"].get("object_store_memory", 2**30))
            with self._measuring:  # one at a time, or each measures the others, too
                network = measure_network(actor, store_bytes=store_bytes)
            operands = NodeOperands(int(KEPT_SHARE * known["memory_bytes"]), actor.forget.remote)
            self._add(NodeHandle(node_id, actor, network, store_bytes, operands), known)
        except ActorUnavailableError:
            return  # Ray restarts it, and the next look finds it
        except RayError as error:
            logger.warning("node %s does not start: %s", node_id[:12], error)
            with self._lock:
                self._actors.pop(node_id, None)
        finally:
            with self._lock:  # only now, or it could be connected twice
                self._connecting.discard(node_id)

    def _add(self, node: NodeHandle, known: Mapping[str, Any]) -> None:
        """Take a node as a member, unless it has left since its connection began."""
        with self._lock:
            if self._actors.get(node.id) is node.actor:
                self._nodes[node.id] = node
                network = asdict(node.network)
                self._tell({"type": "node", "node": node.id, "network": network, **known})


def start_engine(node_id: str, resources: Mapping[str, float]) -> Any:
    """The actor of a node, which Ray restarts when it ends, until the node leaves."""
    engine: Any = ray.remote(concurrency_groups={"control": 1})(NodeEngine)  # type: ignore[call-overload]
    return engine.options(
        num_cpus=resources.get("CPU", 0),
        num_gpus=resources.get("GPU", 0),
        resources={RESOURCE: 1},
        max_restarts=-1,
        max_task_retries=0,
        scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False),
    ).remote()


def measure_network(node: Any, *, store_bytes: int) -> Network:
    """Measure the network by sending a block to a node and back; takes about a second.

    The fastest of some tries counts: other work on a machine only makes a try slower.

    Raises:
        ray.exceptions.RayError: The node does not answer.
    """

    def time_call(call: Callable[[], Any]) -> float:
        start = time.perf_counter()
        ray.get(call(), timeout=_CONTROL_SECONDS)
        return time.perf_counter() - start

    call_seconds = min(time_call(lambda: node.echo.remote(None)) for _ in range(_CALLS))
    block = np.ones(min(_BYTES, store_bytes // STORE_SHARE), np.uint8)
    in_seconds, both_seconds = [], []
    for _ in range(_COPIES):
        in_seconds.append(time_call(lambda: node.measure_in.remote(ray.put(block))))
        both_seconds.append(time_call(lambda: node.echo.remote(ray.put(block))))
    inward = max(min(in_seconds) - call_seconds, 1e-6)
    outward = max(min(both_seconds) - min(in_seconds), 1e-6)
    return Network(call_seconds, block.nbytes / inward, block.nbytes / outward)
