"""Sends B to a node, a part at a time. Nodes that compute the same product share the parts."""

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import ray
from numpy.typing import NDArray

from wavetrim.scheduler.cluster.blocks import cut_operand
from wavetrim.scheduler.cluster.handle import NodeHandle

Matrix = NDArray[Any]

_SHARED_PARTS: Final = 4
"""Ray's store over the largest B whose parts are shared, as all of them lie there; chosen."""

_AHEAD: Final = 3
"""Parts that are sent before the first of them has arrived; chosen."""


class SharedParts:
    """Parts of B in Ray's store while several nodes compute a product: each is put there once.

    Thread-safe. A B that would fill the store is put there anew for each node, a part at a time.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._products: dict[str, tuple[dict[range, Any], list[int]]] = {}

    def enter(self, product: str) -> None:
        """A node begins to receive B of a product."""
        with self._lock:
            _, users = self._products.setdefault(product, ({}, [0]))
            users[0] += 1

    def leave(self, product: str) -> None:
        """It has received B; after the last one the parts are dropped."""
        with self._lock:
            _, users = self._products[product]
            users[0] -= 1
            if not users[0]:
                del self._products[product]

    def put(self, product: str, part: range, rows: Matrix, *, keep: bool) -> Any:
        """The object of some rows of B."""
        if not keep:
            return ray.put(rows)
        with self._lock:
            parts, _ = self._products[product]
            if part not in parts:
                parts[part] = ray.put(rows)
            return parts[part]


def send_operand(
    b: Matrix,
    node: NodeHandle,
    name: str,
    *,
    parts: SharedParts,
    product: str,
    wait: Callable[[Any], None],
) -> list[Any]:
    """Send B to a node, which keeps it.

    Args:
        b: B.
        node: The node.
        name: Name under which it keeps B.
        parts: The parts that other nodes may need, too.
        product: The product that the nodes share.
        wait: Waits for an object of Ray's.

    Returns:
        Objects of Ray's that are there once B is.
    """
    keep = b.nbytes <= node.store_bytes // _SHARED_PARTS
    under_way: deque[Any] = deque()
    kept = []
    parts.enter(product)
    try:
        for part in cut_operand(len(b), b.itemsize * b.shape[1], store_bytes=node.store_bytes):
            if len(under_way) == _AHEAD:
                wait(under_way.popleft())  # so that the store holds few parts
            rows = np.ascontiguousarray(b[part.start : part.stop])
            sent = parts.put(product, part, rows, keep=keep)
            done = node.actor.keep.remote(name, b.shape, part.start, sent)
            under_way.append(done)
            kept.append(done)
    finally:
        parts.leave(product)
    return kept
