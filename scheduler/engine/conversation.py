"""A process's side of the conversation with the service: work in order, control at any time."""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from wavetrim.scheduler.engine.arena import MappedSlabs
from wavetrim.scheduler.engine.messages import (
    PACKET_BYTES,
    Message,
    MessageError,
    RunRequest,
    decode_message,
    encode_message,
)
from wavetrim.scheduler.execution.rows import Hooks, RowsDone

logger = logging.getLogger(__name__)

_PROGRESS_SECONDS: Final = 0.05
"""Least time between two reports of progress; chosen."""


class Channel:
    """One socket to the service; each packet is a message. Sending is thread-safe.

    If the service is gone, the process ends at once.
    """

    def __init__(self, descriptor: int) -> None:
        self._connection = socket.socket(fileno=descriptor)
        self._connection.set_inheritable(False)
        self._lock = threading.Lock()

    def send(self, message: Message) -> None:
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


class Conversation:
    """Reads both sockets until the service sends `shutdown`.

    The calling thread takes work, one message after the other. Another thread answers pings and
    notes cancellations at any time.

    Runs are numbered in the order in which they are sent. The numbers tell whether a cancelled run
    has ended, so that the cancellation is forgotten, or has not been read yet.

    `describe` tells what a pong says besides.

    Attributes:
        slabs: Where memory is mapped that the service shares.
        stopping: Whether the service has sent `shutdown`.
    """

    def __init__(
        self,
        work: Channel,
        control: Channel,
        slabs: MappedSlabs,
        describe: Callable[[], Message] = dict,
    ) -> None:
        self._work, self._control = work, control
        self.slabs, self._describe = slabs, describe
        self._lock = threading.Lock()
        self._running: dict[str, int] = {}
        self._newest = 0
        self._cancelled: set[int] = set()
        self.stopping = False

    def send(self, message: Message) -> None:
        """Send a message, from any thread."""
        self._work.send(message)

    def open_hooks(self, request: RunRequest) -> Hooks:
        """What tells the service of a run, as far as it asks for that, and ends it if it is to."""
        job = request.job

        def tell(kind: str, **fields: Any) -> None:
            self.send({"type": kind, "job": job, **fields})

        reports = _RunReports(tell, request.row_step)
        return Hooks(
            planned=(lambda plan: tell("planned", plan=plan)) if request.reports else None,
            progress=reports.progress if request.reports else None,
            final=reports.final if request.row_step else None,
            changes=partial(tell, "again") if request.row_step else None,
            cancelled=lambda: self.stopping or self._running.get(job) in self._cancelled,
        )

    def end(self, event: Message) -> None:
        """Send the message that ends a run."""
        with self._lock:  # before it is sent: the job may be tried again at once, under its id
            self._cancelled.discard(self._running.pop(event["job"], 0))
        self._work.send(event)

    def serve(self, take: Callable[[Message], None]) -> None:
        """Map slabs and let go of them, and pass every other message of work to `take`."""
        threading.Thread(target=self._listen, name="control", daemon=True).start()
        while not self.stopping:
            try:
                message, files = self._work.receive()
                try:
                    self._take(message, files, take)
                finally:
                    for file in files:  # a mapping needs no descriptor
                        os.close(file)
            except (MessageError, KeyError):
                logger.exception("a message from the service could not be read")

    def _take(self, message: Message, files: list[int], take: Callable[[Message], None]) -> None:
        match message["type"]:
            case "shutdown":
                self.stopping = True
            case "slab":
                self.slabs.add(message["slab"], files[0], message["size_bytes"])
            case "drop":
                self.slabs.drop(message["slab"])
            case "run":
                with self._lock:
                    self._running[message["job"]] = self._newest = message["number"]
                take(message)
            case _:
                take(message)

    def _listen(self) -> None:
        while True:
            try:
                message, _ = self._control.receive()
                match message["type"]:
                    case "ping":
                        self._control.send({"type": "pong", **self._describe()})
                    case "cancel":
                        job, number = message["job"], message["number"]
                        with self._lock:
                            if number > self._newest or self._running.get(job) == number:
                                self._cancelled.add(number)
                    case "shutdown":
                        self.stopping = True
            except (MessageError, KeyError):
                logger.exception("a message from the service could not be read")


class _RunReports:
    """Tells the service of the rows of one run. Thread-safe.

    Its progress is sent at most every 50 ms; its final rows, all of them each time, when there are
    at least `step_rows` more.
    """

    def __init__(self, tell: Callable[..., None], step_rows: int) -> None:
        self._tell, self._step_rows = tell, step_rows
        self._lock = threading.Lock()
        self._sent_seconds, self._sent_rows = 0.0, 0

    def progress(self, done: RowsDone) -> None:
        """Tell how many rows are done."""
        now = time.monotonic()
        with self._lock:
            if now - self._sent_seconds < _PROGRESS_SECONDS:
                return
            self._sent_seconds = now
        rows = {"gpu": done.gpu, "cpu": done.cpu, "nodes": done.nodes}
        self._tell("progress", progress=done.share, rows=rows)

    def final(self, final: Sequence[range]) -> None:
        """Tell which rows will not be written again."""
        rows = sum(map(len, final))
        with self._lock:
            if rows - self._sent_rows < self._step_rows:
                return
            self._sent_rows = rows
        self._tell("rows", final=[[one.start, one.stop] for one in final])
