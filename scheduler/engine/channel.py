"""The engine's ends of the sockets to the service."""

import os
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from wavetrim.scheduler.engine.messages import PACKET_BYTES, decode_message, encode_message
from wavetrim.scheduler.execution.rows_done import RowsDone

Send = Callable[[Mapping[str, Any]], None]
"""Sends a message."""

_PROGRESS_SECONDS: Final = 0.05
"""Least time between two reports of progress; chosen."""


class Channel:
    """One socket to the service; each packet is a message. Sending is thread-safe.

    If the service is gone, the process ends at once.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.set_inheritable(False)
        self._connection = connection
        self._lock = threading.Lock()

    def send(self, message: Mapping[str, Any]) -> None:
        """Send one message."""
        packet = encode_message(message)
        try:
            with self._lock:
                self._connection.send(packet)
        except OSError:
            os._exit(0)

    def receive(self) -> tuple[dict[str, Any], list[int]]:
        """Wait for the next message; returns it and its descriptors.

        Raises:
            MessageError: The packet is not a message.
        """
        try:
            packet, files, _, _ = socket.recv_fds(self._connection, PACKET_BYTES, 1)
        except OSError:
            packet, files = b"", []
        if not packet:
            os._exit(0)
        return decode_message(packet), files


class ProgressReport:
    """Sends a run's progress, at most every 50 ms. Thread-safe."""

    def __init__(self, send: Send, job: str) -> None:
        self._send = send
        self._job = job
        self._lock = threading.Lock()
        self._sent = 0.0

    def __call__(self, done: RowsDone) -> None:
        """Report the finished rows of the product."""
        now = time.monotonic()
        with self._lock:
            if now - self._sent < _PROGRESS_SECONDS:
                return
            self._sent = now
        rows = {"gpu": done.gpu, "cpu": done.cpu, "nodes": done.nodes}
        self._send({"type": "progress", "job": self._job, "progress": done.share, "rows": rows})


class RowsReport:
    """Sends the final rows of a run's result, all of them each time. Thread-safe.

    Args:
        send: Sends a message.
        job: The run.
        step_rows: Least number of additional rows for a message.
    """

    def __init__(self, send: Send, job: str, step_rows: int) -> None:
        self._send = send
        self._job = job
        self._step_rows = step_rows
        self._lock = threading.Lock()
        self._sent_rows = 0

    def __call__(self, final: Sequence[range]) -> None:
        """Report the rows that will not be written again."""
        rows = sum(map(len, final))
        with self._lock:
            if rows - self._sent_rows < self._step_rows:
                return
            self._sent_rows = rows
        ranges = [[one.start, one.stop] for one in final]
        self._send({"type": "rows", "job": self._job, "final": ranges})
