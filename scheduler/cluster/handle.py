"""A node as the service's side knows it."""

from dataclasses import dataclass
from typing import Any

from wavetrim.scheduler.cluster.residents import Residents
from wavetrim.scheduler.planning.placing import Network


@dataclass(frozen=True, slots=True)
class NodeHandle:
    """A node that is ready.

    Attributes:
        id: Ray's id of the node.
        actor: Its engine.
        network: The network to it.
        store_bytes: Size of Ray's store there.
        residents: The operands that it keeps.
    """

    id: str
    actor: Any
    network: Network
    store_bytes: int
    residents: Residents
