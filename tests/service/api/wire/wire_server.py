"""Servers of `tests.service.api.wire.wire_app` in processes of their own, and sockets to them."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import ssl
import time
from http.client import HTTPResponse

from tests.certificates import make_certificate
from tests.environment import ROOT
from tests.preloaded import ForkedProcess
from tests.processes import wait_until

WAYS = ("tcp", "tls", "unix")


class WireServer:
    """A running server.

    Args:
        folder: For its log, certificate and socket.
        way: "tcp", "tls" or "unix".
    """

    def __init__(self, folder, way):
        self.way = way
        self.log = folder / "server.log"
        where: list[object] = []
        if way == "tls":
            where = [*make_certificate(folder)]
        elif way == "unix":
            where = [folder / "socket"]
        read, written = os.pipe()
        with self.log.open("wb") as log:
            self.process = ForkedProcess(
                "tests.service.api.wire.wire_app", [way, *map(str, where)],
                folder=ROOT, environment=os.environ, output=written, errors=log.fileno(),
            )  # fmt: skip
        os.close(written)
        with os.fdopen(read) as output:
            self.address = output.readline().strip()
        assert self.address, self.read_log()

    def read_log(self):
        """What it has logged so far."""
        return self.log.read_text()

    def connect(self, *, receive_buffer=None):
        """A connection; the caller closes it."""
        family = socket.AF_UNIX if self.way == "unix" else socket.AF_INET
        connection = socket.socket(family)
        connection.settimeout(30)
        if receive_buffer is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        if self.way == "unix":
            connection.connect(self.address)
        else:
            connection.connect(("127.0.0.1", int(self.address)))
        return make_context().wrap_socket(connection) if self.way == "tls" else connection

    async def open(self):
        """A connection as streams, which read while they write."""
        if self.way == "unix":
            return await asyncio.open_unix_connection(self.address)
        context = make_context() if self.way == "tls" else None
        return await asyncio.open_connection("127.0.0.1", int(self.address), ssl=context)

    def ask(self, path, body=b"", *, method="POST"):
        """One request over a connection of its own."""
        with self.connect() as connection:
            connection.sendall(make_head(path, len(body), method=method) + body)
            return read_answer(connection)

    def list_events(self):
        """What the application has seen since the last call."""
        events: list[str] = json.loads(self.ask("/list-events", method="GET")[1])
        return events

    def wait_event(self, wanted, seconds=20):
        """Waits until the application has seen something."""
        wait_until(lambda: wanted in self.list_events(), seconds)

    def stop(self, seconds=30):
        """Ends it by SIGTERM; returns how long that took."""
        began = time.monotonic()
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(seconds)
        finally:
            self.process.kill()
            self.process.wait()
        return time.monotonic() - began


def make_head(path, count, *lines, method="POST", content_type="application/x-npy"):
    """A request's head; without a Content-Length where there is no count."""
    fields = ["Host: localhost", f"Content-Type: {content_type}", *lines]
    if count is not None:
        fields.append(f"Content-Length: {count}")
    return "\r\n".join([f"{method} {path} HTTP/1.1", *fields, "", ""]).encode()


def read_answer(connection, *, method="POST"):
    """The next answer's status and body."""
    with HTTPResponse(connection, method=method) as response:
        response.begin()
        return response.status, response.read()


def make_context():
    """A client's view of TLS that believes every certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@contextlib.contextmanager
def serve_wire(folder, way):
    """A server for a block, whose log has no traceback at its end."""
    server = WireServer(folder, way)
    try:
        yield server
        log = server.read_log()
        assert not {"Traceback", "Fatal"} & set(log.split()), log
    finally:
        server.stop()
