"""A proxy that loses answers."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def lose_answers(service: int | Path, line: bytes, count: int) -> Iterator[tuple[str, list[int]]]:
    """A proxy that breaks the connection after requests of a kind, when they are answered.

    Args:
        service: The service's port, or its Unix socket; the proxy listens on another of the kind.
        line: How these requests begin.
        count: How many answers are lost.

    Yields:
        The proxy's address, and the status of each answer that was lost.
    """
    lost: list[int] = []
    listener, url = _listen(service)
    with listener:

        def pass_on(caller: socket.socket) -> None:
            with caller, _connect(service) as far:
                asked = threading.Event()
                asking = threading.Thread(target=forward, args=(caller, far, asked))
                asking.start()
                with contextlib.suppress(OSError):
                    while found := far.recv(65536):
                        if asked.is_set() and len(lost) < count:
                            lost.append(int(found.split()[1]))
                            break
                        caller.sendall(found)
                with contextlib.suppress(OSError):
                    caller.shutdown(socket.SHUT_RDWR)
                asking.join()

        def forward(caller: socket.socket, far: socket.socket, asked: threading.Event) -> None:
            with contextlib.suppress(OSError):
                while piece := caller.recv(65536):
                    if piece.startswith(line):
                        asked.set()
                    far.sendall(piece)
                far.shutdown(socket.SHUT_RDWR)

        def run() -> None:
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=pass_on, args=(listener.accept()[0],)).start()

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield url, lost
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def _listen(service: int | Path) -> tuple[socket.socket, str]:
    if isinstance(service, int):
        listener = socket.create_server(("127.0.0.1", 0))
        return listener, f"http://127.0.0.1:{listener.getsockname()[1]}"
    path = service.with_name(f"{service.name}.lossy")
    path.unlink(missing_ok=True)
    return socket.create_server(str(path), family=socket.AF_UNIX), f"unix:{path}"


def _connect(service: int | Path) -> socket.socket:
    if isinstance(service, int):
        return socket.create_connection(("127.0.0.1", service))
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(service))
    return connection
