"""A process's side of the conversation with the service: work in order, control at any time."""

import ctypes
import faulthandler
import logging
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from wavetrim.scheduler.engine.channel import Channel
from wavetrim.scheduler.engine.messages import Message, MessageError

logger = logging.getLogger(__name__)

_PR_SET_PDEATHSIG: Final = 1


class Conversation:
    """Reads both sockets until the service sends `shutdown`.

    The calling thread takes work, one message after the other. Another thread answers pings and
    notes cancellations at any time.

    Runs are numbered in the order in which they are sent. The numbers tell whether a cancelled run
    has ended, so that the cancellation is forgotten, or has not been read yet.

    Attributes:
        stopping: Whether the service has sent `shutdown`.
    """

    def __init__(
        self, work: Channel, control: Channel, describe: Callable[[], Message] = dict
    ) -> None:
        self._work = work
        self._control = control
        self._describe = describe
        self._lock = threading.Lock()
        self._running: dict[str, int] = {}
        self._newest = 0
        self._cancelled: set[int] = set()
        self.stopping = False

    def send(self, message: Message) -> None:
        """Send a message, from any thread."""
        self._work.send(message)

    def is_cancelled(self, job: str) -> bool:
        """Whether a run is to stop: it was cancelled, or the process ends."""
        return self.stopping or self._running.get(job) in self._cancelled

    def end(self, event: Message) -> None:
        """Send the message that ends a run."""
        with self._lock:  # before it is sent: the job may be tried again at once, under its id
            self._cancelled.discard(self._running.pop(event["job"], 0))
        self._work.send(event)

    def serve(self, take: Callable[[Message, list[int]], None]) -> None:
        """Pass each message of work and its descriptors to `take`; then close the descriptors."""
        threading.Thread(target=self._listen, name="control", daemon=True).start()
        while not self.stopping:
            try:
                message, files = self._work.receive()
                try:
                    if message["type"] == "shutdown":
                        self.stopping = True
                        continue
                    if message["type"] == "run":
                        self._begin(message["job"], message["number"])
                    take(message, files)
                finally:
                    for file in files:  # a mapping needs no descriptor
                        os.close(file)
            except (MessageError, KeyError):
                logger.exception("a message from the service could not be read")

    def _begin(self, job: str, number: int) -> None:
        with self._lock:
            self._running[job] = self._newest = number

    def _cancel(self, job: str, number: int) -> None:
        with self._lock:
            if number > self._newest or self._running.get(job) == number:
                self._cancelled.add(number)

    def _listen(self) -> None:
        while True:
            try:
                message, _ = self._control.receive()
                if message["type"] == "ping":
                    self._control.send({"type": "pong", **self._describe()})
                elif message["type"] == "cancel":
                    self._cancel(message["job"], message["number"])
                elif message["type"] == "shutdown":
                    self.stopping = True
            except (MessageError, KeyError):
                logger.exception("a message from the service could not be read")


def prepare_process() -> None:
    """Let this process survive Ctrl-C in the service's terminal, but not the service's end."""
    faulthandler.enable()
    # The service decides when the engine ends. Ctrl-C in its terminal, or SIGTERM to the whole
    # control group, must not end a running product.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # The end of a socket ends the process; this does so even if no thread reads it.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    try:
        # If memory runs out, the system should end the engine, which the service starts again.
        Path("/proc/self/oom_score_adj").write_text("500", encoding="ascii")
    except OSError:
        logger.debug("the out-of-memory score cannot be changed here")
