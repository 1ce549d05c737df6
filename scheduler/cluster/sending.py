"""Sends B to a node, a part at a time."""

from collections import deque
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import ray
from numpy.typing import NDArray

from wavetrim.scheduler.cluster.blocks import cut_operand
from wavetrim.scheduler.cluster.handle import NodeHandle

_AHEAD: Final = 3
"""Parts that are sent before the first of them has arrived; chosen."""


def send_operand(
    b: NDArray[Any], node: NodeHandle, name: str, wait: Callable[[Any], None]
) -> list[Any]:
    """Send B to a node, which keeps it.

    Args:
        b: B.
        node: The node.
        name: Name under which it keeps B.
        wait: Waits for an object of Ray's.

    Returns:
        Objects of Ray's that are there once B is.
    """
    under_way: deque[Any] = deque()
    kept = []
    for part in cut_operand(len(b), b.itemsize * b.shape[1], store_bytes=node.store_bytes):
        if len(under_way) == _AHEAD:
            wait(under_way.popleft())  # so that the store holds few parts
        sent = ray.put(np.ascontiguousarray(b[part.start : part.stop]))
        done = node.actor.keep.remote(name, b.shape, part.start, sent)
        under_way.append(done)
        kept.append(done)
    return kept
