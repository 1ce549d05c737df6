"""What a product takes at a node of a cluster, with the network. Pure.

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

    def find_seconds(
        self, computing_seconds: float, *, b_bytes: int, in_bytes: int, out_bytes: int
    ) -> float:
        """Seconds of a product at the node.

        Args:
            computing_seconds: Its time without the network.
            b_bytes: Bytes sent before any row.
            in_bytes: Bytes of the rows that are sent.
            out_bytes: Bytes of the rows that come back.
        """
        start_seconds = self.call_seconds + b_bytes / self.in_bytes_per_second
        in_seconds = in_bytes / self.in_bytes_per_second
        out_seconds = out_bytes / self.out_bytes_per_second
        return start_seconds + max(computing_seconds, in_seconds, out_seconds)
