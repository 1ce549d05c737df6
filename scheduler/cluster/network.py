"""The way to a node: what a call costs, and how fast bytes travel."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import ray

_CALLS: Final = 9
_BYTES: Final = 16 * 2**20
_COPIES: Final = 5


@dataclass(frozen=True, slots=True)
class Network:
    """What was measured of the way to a node and back.

    Attributes:
        call_seconds: An empty call.
        in_bytes_per_second: To the node.
        out_bytes_per_second: From the node.
    """

    call_seconds: float
    in_bytes_per_second: float
    out_bytes_per_second: float

    def as_dict(self) -> dict[str, float]:
        """JSON-ready copy."""
        return asdict(self)


def measure_network(node: Any, *, timeout_seconds: float, store_bytes: int) -> Network:
    """Measure the way to a node by sending a block there and back; takes about a second.

    The best of some tries counts: what else a machine does makes a try slower, never faster.

    Args:
        node: The node's actor.
        timeout_seconds: For one call.
        store_bytes: Size of Ray's store, of which one object takes an eighth at most.

    Raises:
        ray.exceptions.RayError: The node does not answer.
    """

    def time_call(call: Callable[[], Any]) -> float:
        start = time.perf_counter()
        ray.get(call(), timeout=timeout_seconds)
        return time.perf_counter() - start

    call_seconds = min(time_call(lambda: node.echo.remote(None)) for _ in range(_CALLS))
    block = np.ones(min(_BYTES, store_bytes // 8), np.uint8)
    in_seconds, both_seconds = [], []
    for _ in range(_COPIES):
        in_seconds.append(time_call(lambda: node.measure_in.remote(ray.put(block))))
        both_seconds.append(time_call(lambda: node.echo.remote(ray.put(block))))
    way_in = max(min(in_seconds) - call_seconds, 1e-6)
    way_out = max(min(both_seconds) - min(in_seconds), 1e-6)
    return Network(call_seconds, block.nbytes / way_in, block.nbytes / way_out)
