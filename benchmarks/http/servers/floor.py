"""A minimal server on plain sockets, the floor of requests: it receives one and sends bytes back.

`python -m benchmarks.http.servers.floor --port 8000`, or `--unix PATH`. `POST /N` is answered with
the first N bytes of its body, received by recv_into into a buffer and sent by one sendall. Many
connections share one thread and one buffer; one with large requests gets its own.
"""

import argparse
import gc
import select
import socket
import threading
from pathlib import Path
from typing import Final

from benchmarks.http.clients.message import HEAD_END

SMALL_BYTES: Final = 2**20
"""Largest request that is answered by the thread that all connections share."""

_BACKLOG: Final = 1024


class FloorServer:
    """Answers every connection of a listening socket, until the process ends."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._poll = select.epoll()
        self._connections: dict[int, socket.socket] = {}
        self._buffer = bytearray(SMALL_BYTES)

    def serve(self) -> None:
        """Wait for connections and requests; ends with the process."""
        self._poll.register(self._listener, select.EPOLLIN)
        while True:
            for handle, _ in self._poll.poll():
                if handle == self._listener.fileno():
                    self._accept()
                else:
                    self._answer(self._connections[handle])

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        if connection.family != socket.AF_UNIX:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connections[connection.fileno()] = connection
        self._poll.register(connection, select.EPOLLIN)

    def _answer(self, connection: socket.socket) -> None:
        try:
            self._buffer = answer_once(connection, self._buffer)
        except OSError:
            self._forget(connection)
            connection.close()
            return
        if len(self._buffer) > SMALL_BYTES:
            self._forget(connection)
            own, self._buffer = self._buffer, bytearray(SMALL_BYTES)
            threading.Thread(target=_serve_alone, args=(connection, own), daemon=True).start()

    def _forget(self, connection: socket.socket) -> None:
        self._poll.unregister(connection)
        del self._connections[connection.fileno()]


def _serve_alone(connection: socket.socket, buffer: bytearray) -> None:
    with connection:
        try:
            while True:
                buffer = answer_once(connection, buffer)
        except OSError:
            _left_buffers.append(buffer)


_left_buffers: Final[list[bytearray]] = []
"""Buffers of closed connections, whose pages are made."""


def _find_buffer(size_bytes: int) -> bytearray:
    """A buffer of at least this length that was used before, or a new one."""
    for index, buffer in enumerate(_left_buffers):
        if len(buffer) >= size_bytes:
            return _left_buffers.pop(index)
    return bytearray(size_bytes)


def answer_once(connection: socket.socket, buffer: bytearray) -> bytearray:
    """Receive one request and answer it.

    Returns:
        The buffer for the next request: this one, or a larger one if the request asked for it.

    Raises:
        OSError: The client has left, or sent no HTTP.
    """
    received, end = 0, -1
    while end < 0:
        received += receive(connection, memoryview(buffer)[received:])
        end = buffer.find(HEAD_END, 0, received)
    body = end + len(HEAD_END)
    answer_bytes, body_bytes = _read_head(bytes(buffer[:end]))
    total = body + body_bytes
    if total > len(buffer):
        larger = _find_buffer(total)
        larger[:received] = memoryview(buffer)[:received]
        buffer = larger
    view = memoryview(buffer)
    while received < total:
        received += receive(connection, view[received:total])
    # The answer's head is shorter than the request's, and takes the place of its end.
    head = f"HTTP/1.1 200 OK\r\ncontent-length: {answer_bytes}\r\n\r\n".encode()
    view[body - len(head) : body] = head
    connection.sendall(view[body - len(head) : body + answer_bytes])
    return buffer


def receive(connection: socket.socket, view: memoryview) -> int:
    """Receive some bytes; returns how many.

    Raises:
        ConnectionResetError: There are no more.
    """
    if count := connection.recv_into(view):
        return count
    raise ConnectionResetError("the client has left")


def _read_head(head: bytes) -> tuple[int, int]:
    """Bytes of the answer and of the body, from the head of our own client's request."""
    try:
        answer_bytes = int(head[head.index(b"/") + 1 : head.index(b" HTTP")])
        return answer_bytes, int(head[head.rindex(b":") + 1 :])
    except ValueError as error:
        raise ConnectionAbortedError(f"no request of the benchmark: {head[:200]!r}") from error


def main() -> None:
    """Listen and serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--port", type=int)
    where.add_argument("--unix", type=Path)
    arguments = parser.parse_args()
    if arguments.unix is None:
        listener = socket.create_server(("127.0.0.1", arguments.port), backlog=_BACKLOG)
    else:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(arguments.unix))
        listener.listen(_BACKLOG)
    gc.disable()
    FloorServer(listener).serve()


if __name__ == "__main__":
    main()
