"""Computes one product at a node: blocks of rows are sent, and blocks of rows come back.

Two blocks are with the node at a time, so that one travels while the other is computed. Only this
process copies rows that come back into the arena, so a block that was given up is never read.
"""

import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import ray
from ray.exceptions import RayError

from wavetrim.scheduler.cluster.membership import NodeHandle
from wavetrim.scheduler.cluster.node_operands import STORE_SHARE, cut_rows
from wavetrim.scheduler.engine.answer import GONE, merge_successes
from wavetrim.scheduler.engine.messages import RunRequest
from wavetrim.scheduler.errors import ExecutionCancelled, NodeLost
from wavetrim.scheduler.execution.rows import Hooks, RowsDone
from wavetrim.scheduler.execution.watchdog import TIMES_EXPECTED
from wavetrim.scheduler.product import EngineProduct

AHEAD: Final = 2
"""Blocks that are with a node at a time: one is computed while another travels."""

PARTS_AHEAD: Final = 3
"""Parts of B that are sent before the first of them has arrived; chosen."""

SMALL_B_BYTES: Final = 1 << 20
"""A stored B up to this size is sent with each call rather than kept; chosen."""

_POLL_SECONDS: Final = 0.05


class NodeProduct:
    """A product at one node.

    It should take `expected_seconds` there. The node is given up if a block takes `stall_seconds`,
    or many times as long as it should. The hooks are told of rows that have come back.
    """

    def __init__(
        self,
        request: RunRequest,
        product: EngineProduct,
        *,
        node: NodeHandle,
        expected_seconds: float,
        stall_seconds: float,
        hooks: Hooks,
    ) -> None:
        self._request = request
        a, b, c, out = product.a, product.b, product.c, product.out
        self._a, self._b, self._c, self._out = a, b, c, out
        self._node, self._hooks = node, hooks
        row_bytes = max(out.itemsize * b.shape[1], a.itemsize * a.shape[1])
        self._blocks = cut_rows(
            len(out), row_bytes, store_bytes=node.store_bytes, seconds=expected_seconds
        )
        bytes_in = b.nbytes + a.nbytes + (0 if c is None else c.nbytes)
        travel_seconds = bytes_in / node.network.in_bytes_per_second
        self._block_seconds = max(
            stall_seconds, TIMES_EXPECTED * (expected_seconds / len(self._blocks) + travel_seconds)
        )
        self._deadline = 0.0

    def run(self) -> dict[str, Any]:
        """Compute the product.

        Returns:
            The message of its end, without the job's id.

        Raises:
            NodeLost: The node is gone, or was given up.
            ExecutionCancelled: The hooks ended it.
        """
        start = time.perf_counter()
        self._deadline = time.monotonic() + self._block_seconds
        try:
            if self._fits_a_call():
                events = self._run_blocks(np.ascontiguousarray(self._b), [])
            else:
                events = self._run_with_b()
        except RayError as error:
            raise NodeLost(f"node {self._node.id[:12]} is gone: {type(error).__name__}") from error
        if events[-1]["type"] != "succeeded":
            return events[-1]
        merged = merge_successes(events, seconds=time.perf_counter() - start)
        return {**merged, "resident": self._node.operands.list_names()}

    def _run_with_b(self) -> list[dict[str, Any]]:
        """Compute blocks with a B that the node has, or that is sent first."""
        request, operands = self._request, self._node.operands
        name = request.b_key or request.job
        keep = request.b_key is not None
        with operands.use(name, self._b.nbytes, keep=keep) as kept:
            while True:
                with self._acquire(kept.sending):
                    was_there = kept.is_there
                    if not was_there:
                        kept.sent = self._send_b(name)
                    kept.is_there = True
                    sent = kept.sent
                events = self._run_blocks(name, sent)
                if not was_there or events[-1].get("kind") != GONE:
                    return events
                with self._acquire(kept.sending):
                    if kept.sent is sent:  # no other product has sent it again meanwhile
                        kept.is_there = False  # the engine has started again, without it

    def _send_b(self, name: str) -> list[Any]:
        """Send B, a part at a time; returns objects of Ray's that are there once B is."""
        b, sent = self._b, list[Any]()
        row_bytes = b.itemsize * b.shape[1]
        for part in cut_rows(len(b), row_bytes, store_bytes=self._node.store_bytes):
            if len(sent) >= PARTS_AHEAD:
                self._wait(sent[-PARTS_AHEAD])  # so that the store holds few parts
            rows = ray.put(np.ascontiguousarray(b[part.start : part.stop]))
            sent.append(self._node.actor.keep.remote(name, b.shape, part.start, rows))
        return sent

    def _fits_a_call(self) -> bool:
        """Whether all operands may be sent with one call: each call costs 1 ms."""
        most_bytes = self._node.store_bytes // STORE_SHARE
        if self._request.b_key is not None:
            most_bytes = min(most_bytes, SMALL_B_BYTES)
        return len(self._blocks) == 1 and self._b.nbytes <= most_bytes

    def _run_blocks(self, b: Any, sent: Sequence[Any]) -> list[dict[str, Any]]:
        """Compute blocks until one fails, with B, or the name under which the node keeps it."""
        events: list[dict[str, Any]] = []
        left, under_way = deque(self._blocks), deque[tuple[range, Any, Any]]()
        while left or under_way:
            while left and len(under_way) < AHEAD:
                under_way.append(self._send_block(left.popleft(), b, sent))
            events.append(self._collect(*under_way.popleft()))
            if events[-1]["type"] != "succeeded":
                break
        return events

    def _send_block(self, rows: range, b: Any, sent: Sequence[Any]) -> tuple[range, Any, Any]:
        """Send a block; returns its rows, and objects of Ray's for the result and the message."""
        a = np.ascontiguousarray(self._a[rows.start : rows.stop])
        c = None if self._c is None else np.ascontiguousarray(self._c[rows.start : rows.stop])
        call = self._node.actor.multiply.options(num_returns=2)
        out, event = call.remote(self._request, b, a, c, *sent)
        return rows, out, event

    def _collect(self, rows: range, out: Any, told: Any) -> dict[str, Any]:
        """Wait for a block, and copy its rows into the result."""
        self._wait(told)
        event: dict[str, Any] = ray.get(told)
        if event["type"] == "succeeded":
            self._wait(out)
            np.copyto(self._out[rows.start : rows.stop], ray.get(out))
            self._tell(rows.stop)
        self._deadline = time.monotonic() + self._block_seconds
        return event

    def _tell(self, rows: int) -> None:
        """Report the first rows, which have come back, as final."""
        if self._hooks.final is not None:
            self._hooks.final([range(rows)])
        if self._hooks.progress is not None:
            self._hooks.progress(RowsDone(len(self._out), nodes=rows))

    def _wait(self, reference: Any) -> None:
        """Wait for an object of Ray's until it is there, or the deadline has passed."""
        while not ray.wait([reference], timeout=_POLL_SECONDS)[0]:
            self._end_if_due()

    @contextmanager
    def _acquire(self, lock: threading.Lock) -> Iterator[None]:
        """Acquire a lock that another product may have until the deadline has passed."""
        has_waited = False
        while not lock.acquire(timeout=_POLL_SECONDS):
            has_waited = True
            self._end_if_due()
        if has_waited:  # the other took the time
            self._deadline = time.monotonic() + self._block_seconds
        try:
            yield
        finally:
            lock.release()

    def _end_if_due(self) -> None:
        """Look whether the product was cancelled, or the deadline has passed, while it waits."""
        try:
            self._hooks.end_if_cancelled()
        except ExecutionCancelled:
            self._node.actor.cancel.remote(self._request.job)
            raise
        if time.monotonic() > self._deadline:
            ray.kill(self._node.actor, no_restart=False)
            raise NodeLost(
                f"node {self._node.id[:12]} is given up: a block took longer than "
                f"{self._block_seconds:.1f} s"
            )
