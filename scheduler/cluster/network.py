"""Measures the network to a node: the time of a call, and the rate of bytes each way."""

import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import ray

from wavetrim.scheduler.cluster.node_operands import STORE_SHARE
from wavetrim.scheduler.planning.placing import Network

_CALLS: Final = 9
_BYTES: Final = 16 * 2**20
_COPIES: Final = 5
"""Empty calls, bytes of a block, and copies of it; chosen."""


def measure_network(node: Any, *, timeout_seconds: float, store_bytes: int) -> Network:
    """Measure the network by sending a block to a node and back; takes about a second.

    The fastest of some tries counts: other work on a machine only makes a try slower.

    Raises:
        ray.exceptions.RayError: The node does not answer.
    """

    def time_call(call: Callable[[], Any]) -> float:
        start = time.perf_counter()
        ray.get(call(), timeout=timeout_seconds)
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
