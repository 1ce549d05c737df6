"""A port whose connections are those of a Unix socket, for clients that know TCP only."""

import socket
import threading
from contextlib import suppress
from pathlib import Path


class Forwarder:
    """Listens on a free loopback port until the process ends.

    Args:
        path: The Unix socket.

    Attributes:
        port: Where it listens.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            near, _ = self._listener.accept()
            far = socket.socket(socket.AF_UNIX)
            try:
                far.connect(str(self._path))
            except OSError:
                near.close()
                continue
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=_copy, args=(source, target), daemon=True).start()


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Copies until the source ends, and then ends the target's direction."""
    with suppress(OSError):
        while chunk := source.recv(2**16):
            target.sendall(chunk)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
