"""All engines that there are: that of this machine, and those of a cluster's nodes."""

from typing import TypeAlias

from wavetrim.service.engine.cluster import Cluster, ClusterNode
from wavetrim.service.engine.engine import Engine
from wavetrim.service.engine.supervisor import Supervisor

AnyEngine: TypeAlias = Engine | ClusterNode
"""What computes products, here or on a node."""


class Fleet:
    """All engines.

    Args:
        here: The engine of this machine.
        cluster: The nodes; None without a cluster.
    """

    def __init__(self, here: Engine, cluster: Cluster | None = None) -> None:
        self.here = here
        self.cluster = cluster

    @property
    def processes(self) -> tuple[Supervisor, ...]:
        """The processes that start and stop with the service, this machine's engine first."""
        return (self.here,) if self.cluster is None else (self.here, self.cluster)

    @property
    def nodes(self) -> tuple[ClusterNode, ...]:
        """The nodes that take runs."""
        if self.cluster is None or not self.cluster.ready:
            return ()
        return tuple(self.cluster.nodes.values())

    def find(self, engine_id: str) -> AnyEngine | None:
        """An engine that takes runs."""
        if engine_id == self.here.id:
            return self.here if self.here.ready else None
        node = None if self.cluster is None else self.cluster.nodes.get(engine_id)
        return node if node is not None and node.ready else None
