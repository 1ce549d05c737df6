"""Ending a call of another thread: what it waits for is ended, and then it raises `Interrupted`.

A blocking call needs none of this, as Ctrl-C interrupts it where it waits.
"""

import contextlib
import socket
import threading
from contextvars import ContextVar
from typing import Final


class Interrupted(BaseException):
    """The call was interrupted by another thread. Nobody sees it but the call itself."""


class Interruption:
    """Interrupts one call, whose socket it knows. What the call does afterwards goes on."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._sock: socket.socket | None = None
        self._grace_seconds = 0.0

    def interrupt(self) -> None:
        """Interrupt the call: shut its socket down, or end its pause. From another thread."""
        # Read after this is set, as the call looks at it after it has told or left its socket.
        self._asked.set()
        if (sock := self._sock) is not None:
            timer = threading.Timer(self._grace_seconds, _shut_down, [sock])
            timer.daemon = True
            timer.start()

    def watch(self, sock: socket.socket, grace_seconds: float = 0.0) -> None:
        """Note the socket that the call uses from now on.

        For `grace_seconds` an answer may still arrive after an interruption, as it says what is to
        be taken back.
        """
        self._grace_seconds, self._sock = grace_seconds, sock
        self.check()

    def release(self) -> bool:
        """Forget the socket; returns whether it may be used for another call."""
        self._sock = None
        return not self._asked.is_set()

    def take(self) -> bool:
        """Whether the call was interrupted; each interruption is told once."""
        asked = self._asked.is_set()
        self._asked.clear()
        return asked

    def check(self) -> None:
        """Raise `Interrupted` if the call was interrupted."""
        if self.take():
            raise Interrupted

    def sleep(self, seconds: float) -> None:
        """Sleep, until the call is interrupted."""
        self._asked.wait(seconds)
        self.check()


CURRENT: Final[ContextVar[Interruption]] = ContextVar("interruption")
"""What interrupts the call of this thread, if another thread may do so."""


def find_interruption() -> Interruption:
    """What interrupts the call of this thread."""
    return CURRENT.get(None) or Interruption()


def _shut_down(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it is closed already
        socket.socket.shutdown(sock, socket.SHUT_RDWR)  # TLS would say goodbye first
