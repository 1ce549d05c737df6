"""A product at a node of a cluster."""

import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from wavetrim.scheduler.engine.messages import FINAL_TYPES, Message, RunRequest
from wavetrim.service.engine.cluster import ClusterNode

_NODE_FAILURES: Final = frozenset({"node", "engine", "gone", "memory", "device", "internal"})
"""Kinds of failure that are a node's own: another engine may succeed."""


class NodeRun:
    """Has one node compute a product.

    Args:
        request: The product.
        node: The node.
        seconds: How long it should take.
        take: Receives the messages of the product, as those of this machine's engine.
        lost: Called in place of that with the final message of a node that failed by itself, unless
            the product was stopped.

    Attributes:
        job: Id of the run: a job may be tried again while a node still ends its last try.
    """

    def __init__(
        self,
        request: RunRequest,
        node: ClusterNode,
        *,
        seconds: float,
        take: Callable[[Message], None],
        lost: Callable[[Message], None],
    ) -> None:
        self.job = f"{request.job}.{secrets.token_hex(8)}"
        self._request, self._node, self._seconds = request, node, seconds
        self._take, self._lost = take, lost
        self._stopped = False

    def start(self, *, was_idle: bool, ended: Callable[[str], None]) -> None:
        """Send the product; the final message may come before this returns.

        Args:
            was_idle: Whether the node has nothing else to do, so that its time says how fast it is.
            ended: Called with the run's id before its final message is taken.
        """
        began = time.monotonic()

        def take(message: Message) -> None:
            if message["type"] in FINAL_TYPES:
                ended(self.job)
            if message["type"] == "succeeded":
                self._learn(message, time.monotonic() - began if was_idle else None)
            self._pass_on(message)

        request = replace(self._request, job=self.job).as_message()
        self._node.start_run({**request, "expected_seconds": self._seconds}, take)

    def cancel(self) -> None:
        """Ask the node to stop."""
        self._stopped = True
        self._node.cancel(self.job)

    async def restart_engine(self, reason: str) -> None:
        """End the node's engine by force."""
        self._stopped = True
        await self._node.restart(reason)

    def _learn(self, message: Message, measured_seconds: float | None) -> None:
        """Learn from a success for later products."""
        self._node.resident = frozenset(message.get("resident", ()))
        if measured_seconds is not None:
            self._node.note_run(expected_seconds=self._seconds, measured_seconds=measured_seconds)

    def _pass_on(self, message: Message) -> None:
        message = {**message, "job": self._request.job}
        if message["type"] == "failed" and message["kind"] in _NODE_FAILURES:
            if not self._stopped:
                self._lost(message)
                return
            message["type"] = "cancelled"  # its engine was ended to stop it
        if message["type"] == "succeeded":
            plan = message["plan"]
            predicted = {**plan["predicted"], "total_seconds": self._seconds}
            node = {"id": self._node.id, "host": self._node.host}
            message["plan"] = {**plan, "predicted": predicted, "node": node}
        self._take(message)
