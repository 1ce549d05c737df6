"""The network to a node: what it carries, and how operands are cut to be sent over it."""

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

import numpy as np
import ray

from wavetrim.scheduler.planning.placing import Network

STORE_SHARE: Final = 8
"""Ray's store over its largest object, so that several fit without a file on disk; chosen."""

LEAST_BLOCK_SECONDS: Final = 0.02
"""Least time of a block. Chosen: a call of its own takes 1 to 2 ms."""

MOST_BLOCKS: Final = 16
"""Most blocks of a product, unless the store needs more. Chosen: only the first block's way in and
the last one's way back overlap no computing."""

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


def cut_rows(rows: int, row_bytes: int, *, store_bytes: int, seconds: float) -> list[range]:
    """Cut rows of A and C into blocks of about one size.

    Args:
        rows: Rows of the product, at least 1.
        row_bytes: Bytes of a row of A or of C, whichever is longer.
        store_bytes: Size of Ray's store.
        seconds: Predicted seconds of the node for all rows.
    """
    wanted = min(MOST_BLOCKS, max(1, int(seconds / LEAST_BLOCK_SECONDS)))
    least = -(-rows * row_bytes // max(row_bytes, store_bytes // STORE_SHARE))
    return cut_evenly(rows, max(wanted, least))


def cut_operand(rows: int, row_bytes: int, *, store_bytes: int) -> list[range]:
    """Cut the rows of an operand into as few parts as Ray's store allows."""
    return cut_evenly(rows, -(-rows * row_bytes // max(row_bytes, store_bytes // STORE_SHARE)))


def cut_evenly(rows: int, count: int) -> list[range]:
    """Consecutive ranges that differ by at most one row; fewer than `count` for fewer rows."""
    count = max(1, min(rows, count))
    ends = [rows * index // count for index in range(count + 1)]
    return [range(start, stop) for start, stop in pairwise(ends)]
