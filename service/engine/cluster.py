"""The nodes of a cluster as the service sees them: engines, like that of this machine.

One process speaks with Ray for all of them (`wavetrim.scheduler.cluster`). Like the engine it is
watched and started again; while it is gone, so are all nodes.
"""

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

from wavetrim.scheduler.engine.messages import Message
from wavetrim.scheduler.errors import ProfileError
from wavetrim.scheduler.planning.placing import Network
from wavetrim.scheduler.profile.machine import MachineProfile
from wavetrim.scheduler.profile.store import read_profile
from wavetrim.service.engine.supervisor import Supervisor
from wavetrim.service.settings import Settings

logger = logging.getLogger(__name__)

_KEPT_RATIOS: Final = 15
"""How many of a node's newest runs count for its `factor`; chosen, as runs vary."""

_LEAST_RATIOS: Final = 3
"""With fewer runs the factor is 1; chosen."""


@dataclass(slots=True)
class ClusterNode:
    """An engine on another host.

    Attributes:
        id: Ray's id of the node.
        host: Its name.
        devices: Its GPUs, as `DeviceInfo` has them.
        cpu_threads: Threads of its CPU path.
        memory_bytes: Its memory.
        profile: What its plans are made from, measured there.
        network: The network to it.
        resident: Ids of the stored matrices that it keeps.
    """

    id: str
    host: str
    devices: list[dict[str, Any]]
    cpu_threads: int
    memory_bytes: int
    profile: MachineProfile
    network: Network
    _cluster: "Cluster"
    resident: frozenset[str] = frozenset()
    _ratios: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT_RATIOS))

    @property
    def factor(self) -> float:
        """Measured over planned seconds, the median of the newest runs; 1 until there are a few."""
        return median(self._ratios) if len(self._ratios) >= _LEAST_RATIOS else 1.0

    def note_run(self, *, expected_seconds: float, measured_seconds: float) -> None:
        """Learn from a run how long the next ones will take."""
        if expected_seconds > 0:  # these are planned seconds times the factor
            self._ratios.append(self.factor * measured_seconds / expected_seconds)

    def start_run(self, message: Message, take: Callable[[Message], None]) -> None:
        """As `Supervisor.start_run`; a node that is lost fails its run with kind "node"."""
        self._cluster.start_run({**message, "node": self.id}, take)

    def cancel(self, job_id: str) -> None:
        """As `Supervisor.cancel`."""
        self._cluster.cancel(job_id)

    async def restart(self, reason: str) -> None:
        """End the node's engine; Ray starts another one."""
        logger.warning("the engine of node %s is ended: %s", self.id[:12], reason)
        self._cluster.send({"type": "end", "node": self.id, "reason": reason})


class Cluster(Supervisor):
    """The nodes of a Ray cluster, and the process that speaks with them.

    Args:
        settings: Where the cluster is, and how long a block may take.

    Attributes:
        nodes: Those that take runs, by their ids.
        on_change: Called when a node has come or gone.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(
            "wavetrim.scheduler.cluster",
            name="the cluster's process",
            environment={"RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0"},
        )
        self._settings = settings
        self.nodes: dict[str, ClusterNode] = {}
        self.on_change: Callable[[], None] = lambda: None

    def list_arguments(self, _failed_starts: int, /) -> list[str]:
        """The process's command line."""
        address = self._settings.ray_address
        assert address is not None, "a cluster is made only where an address is set"
        return ["--address", address, "--stall-seconds", str(self._settings.stall_seconds)]

    def learn(self, _hello: Message, /) -> None:
        """A new process knows of no nodes yet."""
        self.forget()

    def forget(self) -> None:
        """The process is gone, and its nodes with it."""
        self.nodes.clear()
        self.on_change()

    def take_other(self, message: Message, /) -> None:
        """A node has come, or is gone."""
        if message["type"] == "node":
            try:
                self._add(message)
            except (ProfileError, KeyError, TypeError):
                logger.exception("node %s cannot be used: another version?", message["node"][:12])
                return
        elif message["type"] == "node_gone":
            self.nodes.pop(message["node"], None)
            logger.warning("node %s is gone: %s", message["node"][:12], message["reason"])
        self.on_change()

    def _add(self, message: Message) -> None:
        node = ClusterNode(
            id=message["node"],
            host=message["host"],
            devices=message["devices"],
            cpu_threads=message["cpu_threads"],
            memory_bytes=message["memory_bytes"],
            profile=read_profile(message["profile"]),
            network=Network(**message["network"]),
            _cluster=self,
        )
        self.nodes[node.id] = node
        logger.info("node %s has joined: %s on %s", node.id[:12], node.profile.device, node.host)
