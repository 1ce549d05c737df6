"""On which engine of a cluster a product is computed: on the one that should end it first. Pure.

To a node B is sent first, then rows of A while others are computed and rows of C come back.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Network:
    """The network to a node and back.

    Attributes:
        call_seconds: Time of an empty call.
        in_bytes_per_second: Rate to the node.
        out_bytes_per_second: Rate from the node.
    """

    call_seconds: float
    in_bytes_per_second: float
    out_bytes_per_second: float


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes that a product sends to a node and gets back.

    Attributes:
        b_bytes: Bytes sent before any row.
        in_bytes: Bytes of the rows that are sent.
        out_bytes: Bytes of the rows that come back.
    """

    b_bytes: int
    in_bytes: int
    out_bytes: int


@dataclass(frozen=True, slots=True)
class Offer:
    """The time that an engine would take for a product.

    Attributes:
        engine: Its id.
        computing_seconds: Its time without the network.
        network: The network to it; None for this machine.
        traffic: Bytes that cross the network.
        factor: Measured over expected seconds of the engine's newest runs.
        busy_seconds: Seconds until it has done its other work.
    """

    engine: str
    computing_seconds: float
    network: Network | None = None
    traffic: Traffic = Traffic(0, 0, 0)
    factor: float = 1.0
    busy_seconds: float = 0.0

    @property
    def seconds(self) -> float:
        """Seconds of the product, with the network."""
        network, traffic = self.network, self.traffic
        if network is None:
            return self.computing_seconds
        start_seconds = network.call_seconds + traffic.b_bytes / network.in_bytes_per_second
        in_seconds = traffic.in_bytes / network.in_bytes_per_second
        out_seconds = traffic.out_bytes / network.out_bytes_per_second
        return self.factor * (start_seconds + max(self.computing_seconds, in_seconds, out_seconds))

    @property
    def end_seconds(self) -> float:
        """Seconds from now until it has done the product."""
        return self.busy_seconds + self.seconds
