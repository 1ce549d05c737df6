"""The engine's end of the socket to the service."""

import os
import socket
import threading
import time
from collections.abc import Mapping
from typing import Any, Final

from wavetrim.scheduler.messages import decode_message, encode_message

_PROGRESS_SECONDS: Final = 0.05


class Channel:
    """The engine's end of the socket. Sending is thread-safe.

    When the service is gone there is nobody to work for: the process ends at once.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.set_inheritable(False)
        self._connection = connection
        self._lines = connection.makefile("rb")
        self._lock = threading.Lock()

    def send(self, message: Mapping[str, Any]) -> None:
        """Send one message."""
        line = encode_message(message)
        try:
            with self._lock:
                self._connection.sendall(line)
        except OSError:
            os._exit(0)

    def receive(self) -> dict[str, Any]:
        """Wait for the next message."""
        try:
            line = self._lines.readline()
        except OSError:
            line = b""
        if not line.endswith(b"\n"):
            os._exit(0)
        return decode_message(line)


class ProgressReport:
    """Sends a run's progress, at most every 50 ms. Thread-safe."""

    def __init__(self, channel: Channel, job: str) -> None:
        self._channel = channel
        self._job = job
        self._lock = threading.Lock()
        self._sent = 0.0

    def __call__(self, progress: float) -> None:
        """Tell how much of the product is done, 0…1."""
        now = time.monotonic()
        with self._lock:
            if now - self._sent < _PROGRESS_SECONDS:
                return
            self._sent = now
        self._channel.send({"type": "progress", "job": self._job, "progress": progress})
