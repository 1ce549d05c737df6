"""Clients that keep a server busy: each sends its next request when it has its last answer.

Clients with large requests are threads on blocking sockets, which release the interpreter's lock
while bytes move. Many with small requests share one thread that waits by epoll. Status, length,
first and last row of every answer are checked. The last answer of each client is checked whole,
outside the measured time.
"""

import contextlib
import gc
import select
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from benchmarks.http.clients.connection import TIMEOUT_SECONDS, Address, Call, Connection
from benchmarks.http.clients.message import AnswerHead

LARGE_BYTES: Final = 2**20
"""Least bytes of a request for which each client is a thread."""


@dataclass(slots=True)
class Load:
    """The measurements of some clients.

    Attributes:
        seconds: Of each answered request, from its first byte sent to the last byte received.
        refused: Requests that were refused for now (429, 503).
        elapsed_seconds: From the first request to the last answer.
        client_seconds: CPU time of the clients during that.
    """

    seconds: list[float] = field(default_factory=list)
    refused: int = 0
    elapsed_seconds: float = 0.0
    client_seconds: float = 0.0


def apply_load(address: Address, calls: Sequence[Call], clients: int, seconds: float) -> Load:
    """Let clients call for some time, each at least once; each goes through the calls in turn.

    Raises:
        OSError: A connection broke.
        AnswerMalformed: An answer is no HTTP.
        WrongAnswer: An answer is not what it must be.
    """
    with contextlib.ExitStack() as stack:
        connections = []
        for place in range(clients):
            connections.append(Connection(address, calls[place % len(calls)]))
            stack.callback(connections[-1].close)
        load = Load()
        with _measure(load):
            until = time.perf_counter() + seconds
            if clients == 1:
                _call_alone(connections[0], calls, 0, until, load)
            elif len(calls[0].request) >= LARGE_BYTES:
                _call_in_threads(connections, calls, until, load)
            else:
                _Selector(connections, calls, until, load).run()
        for connection in connections:
            connection.check_last()
    return load


@contextlib.contextmanager
def _measure(load: Load) -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        began, cpu = time.perf_counter(), time.process_time()
        yield
        load.elapsed_seconds = time.perf_counter() - began
        load.client_seconds = time.process_time() - cpu
    finally:
        gc.enable()


def _call_alone(
    connection: Connection, calls: Sequence[Call], place: int, until: float, load: Load
) -> None:
    while True:
        call = calls[place % len(calls)]
        place += 1
        began = time.perf_counter()
        head = connection.exchange(call)
        ended = time.perf_counter()
        if connection.accept(head):
            load.seconds.append(ended - began)
        else:
            load.refused += 1
        if ended >= until:
            return


def _call_in_threads(
    connections: Sequence[Connection], calls: Sequence[Call], until: float, load: Load
) -> None:
    def call(place: int) -> Load:
        own = Load()
        _call_alone(connections[place], calls, place, until, own)
        return own

    with ThreadPoolExecutor(len(connections)) as pool:
        for own in list(pool.map(call, range(len(connections)))):
            load.seconds += own.seconds
            load.refused += own.refused


@dataclass(slots=True, eq=False)
class _Client:
    """One of many connections in a thread, and how far its request is."""

    connection: Connection
    place: int
    began: float = 0.0
    sent: int = 0
    received: int = 0
    head: AnswerHead | None = None


class _Selector:
    """Many clients in one thread."""

    def __init__(
        self, connections: Sequence[Connection], calls: Sequence[Call], until: float, load: Load
    ) -> None:
        self._poll = select.epoll()
        self._clients: dict[int, _Client] = {}
        self._calls, self._until, self._load = calls, until, load
        for place, connection in enumerate(connections):
            self._register(_Client(connection, place))

    def run(self) -> None:
        """Run until every client has its last answer."""
        with self._poll:
            for client in list(self._clients.values()):
                self._begin(client)
            while self._clients:
                events = self._poll.poll(TIMEOUT_SECONDS)
                if not events:
                    raise TimeoutError(f"no byte for {TIMEOUT_SECONDS:g} s")
                for handle, event in events:
                    client = self._clients[handle]
                    if event & select.EPOLLOUT:
                        self._send(client)
                    if event & ~select.EPOLLOUT:
                        self._receive(client)

    def _register(self, client: _Client) -> None:
        client.connection.socket.setblocking(False)
        self._clients[client.connection.socket.fileno()] = client
        self._poll.register(client.connection.socket, select.EPOLLIN)

    def _begin(self, client: _Client) -> None:
        connection = client.connection
        connection.call = self._calls[client.place % len(self._calls)]
        client.place += 1
        client.sent = client.received = 0
        client.head = None
        client.began = time.perf_counter()
        self._send(client)

    def _send(self, client: _Client) -> None:
        """Send what the socket takes; wait for room only if it did not take all."""
        connection = client.connection
        request, before = connection.call.request, client.sent
        rest = memoryview(request)[before:] if before else request
        with contextlib.suppress(BlockingIOError):
            client.sent += connection.socket.send(rest)
        if client.sent < len(request):
            self._poll.modify(connection.socket, select.EPOLLIN | select.EPOLLOUT)
        elif before:
            self._poll.modify(connection.socket, select.EPOLLIN)

    def _receive(self, client: _Client) -> None:
        connection = client.connection
        try:
            count = connection.socket.recv_into(
                connection.view[client.received :] if client.received else connection.answer
            )
        except BlockingIOError:
            return
        if count == 0:
            raise ConnectionResetError("the server has closed the connection")
        client.received += count
        if client.head is None:
            client.head = connection.find_head(connection.answer, client.received)
        if client.head is not None and client.received >= client.head.total_bytes:
            self._finish(client, client.head)

    def _finish(self, client: _Client, head: AnswerHead) -> None:
        ended = time.perf_counter()
        connection = client.connection
        handle = connection.socket.fileno()
        if connection.accept(head):
            self._load.seconds.append(ended - client.began)
        else:
            self._load.refused += 1
        if head.closes:  # the old socket is closed, and epoll has forgotten it
            del self._clients[handle]
            self._register(client)
        if ended < self._until:
            self._begin(client)
        else:
            self._poll.unregister(connection.socket)
            del self._clients[connection.socket.fileno()]
