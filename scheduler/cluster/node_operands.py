"""The operands of a node: how they are cut to be sent, and which it keeps between products.

A B that comes again is not sent again. The head decides which are kept. The least recently used
ones are dropped if memory is short, but none that a product uses. An operand's name is the id of a
stored matrix, which never changes and is never used again. So a kept operand is right even when the
matrix was deleted.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

STORE_SHARE: Final = 8
"""Ray's store over its largest object, so that several fit without a file on disk; chosen."""

LEAST_BLOCK_SECONDS: Final = 0.02
"""Least time of a block. Chosen: a call of its own takes 1 to 2 ms."""

MOST_BLOCKS: Final = 16
"""Most blocks of a product, unless the store needs more. Chosen: only the first block's way in and
the last one's way back overlap no computing."""

KEPT_SHARE: Final = 0.25
"""Share of a node's memory that kept operands may take; chosen."""


def cut_rows(rows: int, row_bytes: int, *, store_bytes: int, seconds: float = 0) -> list[range]:
    """Cut rows of A and C, or of B, into blocks that differ by at most one row.

    Args:
        rows: Rows of the matrix, at least 1.
        row_bytes: Bytes of a row; of A or of C, whichever is longer.
        store_bytes: Size of Ray's store.
        seconds: Predicted seconds of the node for all rows; 0 for as few blocks as the store
            allows.
    """
    wanted = min(MOST_BLOCKS, max(1, int(seconds / LEAST_BLOCK_SECONDS)))
    least = -(-rows * row_bytes // max(row_bytes, store_bytes // STORE_SHARE))
    count = min(rows, max(wanted, least))
    ends = [rows * index // count for index in range(count + 1)]
    return [range(start, stop) for start, stop in pairwise(ends)]


@dataclass(slots=True)
class NodeOperand:
    """One operand at a node.

    Attributes:
        size_bytes: Its size.
        is_there: Whether all of it has been sent.
        sent: Objects of Ray's that are there once it is: any product may wait for them.
        users: Number of products that use it.
        sending: Held while one product sends it, so that others wait.
    """

    size_bytes: int
    is_there: bool = False
    sent: list[Any] = field(default_factory=list)
    users: int = 0
    sending: threading.Lock = field(default_factory=threading.Lock)


class NodeOperands:
    """The operands that one node keeps, of so many bytes; those in use may take more. Thread-safe.

    `forget` makes the node drop one.
    """

    def __init__(self, capacity_bytes: int, forget: Callable[[str], None]) -> None:
        self._capacity_bytes = capacity_bytes
        self._forget = forget
        self._kept: OrderedDict[str, NodeOperand] = OrderedDict()
        self._lock = threading.Lock()

    @contextmanager
    def use(self, name: str, size_bytes: int, *, keep: bool) -> Iterator[NodeOperand]:
        """Use an operand: it stays at the node until the block ends, with `keep` also longer."""
        with self._lock:
            one = self._kept.setdefault(name, NodeOperand(size_bytes))
            self._kept.move_to_end(name)
            one.users += 1
            self._make_room()
        try:
            yield one
        finally:
            with self._lock:
                one.users -= 1
                if not one.users and not (keep and one.is_there):
                    self._drop(name)
                self._make_room()

    def list_names(self) -> list[str]:
        """The operands that are there."""
        with self._lock:
            return [name for name, one in self._kept.items() if one.is_there]

    def _make_room(self) -> None:
        used = sum(one.size_bytes for one in self._kept.values())
        for name, one in tuple(self._kept.items()):
            if used <= self._capacity_bytes:
                return
            if not one.users:
                used -= one.size_bytes
                self._drop(name)

    def _drop(self, name: str) -> None:
        del self._kept[name]
        self._forget(name)
