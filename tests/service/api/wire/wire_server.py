"""Services on one kind of socket each, and requests to them byte by byte."""

import asyncio
import contextlib
import ssl
from http.client import HTTPResponse

import numpy as np

from tests.certificates import make_tls_settings
from tests.fuzz.answers import split_answers
from tests.server import RunningServer, encode_npy

MIB = 2**20
WAYS = ("tcp", "tls", "unix")
PATIENCE_SECONDS = 2.0
"""How long a head may take, and the sender of a body be silent."""

ONE = encode_npy(np.ones((1, 1), np.uint8))


class WireServer(RunningServer):
    """A service on one kind of socket, with little patience and poisoned memory."""

    def __init__(self, folder, way):
        settings = make_tls_settings(folder) if way == "tls" else {}
        if way == "unix":
            settings["unix_socket"] = folder / "socket"
        super().__init__(
            folder / "data", arena_poison=True, head_seconds=PATIENCE_SECONDS,
            upload_idle_seconds=PATIENCE_SECONDS, **settings,
        )  # fmt: skip
        self.way = way

    def connect(self, way="", **options):
        """A connection of its kind."""
        return super().connect(way or ("unix" if self.way == "unix" else "tcp"), **options)

    def ask(self, content, count, *, half_closes=False, ends=True):
        """Sends bytes, and perhaps the end; the answers, after which the connection ends or not."""
        return asyncio.run(self._ask(content, count, half_closes=half_closes, ends=ends))

    async def _ask(self, content, count, *, half_closes, ends):
        if self.way == "unix":
            reader, writer = await asyncio.open_unix_connection(self.unix_socket)
        else:
            context = make_context() if self.way == "tls" else None
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=context)
        writer.write(content)
        if half_closes:
            writer.write_eof()
        received, answers = b"", []
        # Under TLS a connection cannot end in one direction: it is not waited for.
        while len(answers) < count or (ends and self.way != "tls"):
            chunk = await reader.read(MIB)
            if not chunk:
                break
            received += chunk
            answers, rest = split_answers(received, lambda _request: False)
        writer.close()
        with contextlib.suppress(OSError):  # the service has broken it off
            await writer.wait_closed()
        assert (len(answers), rest) == (count, b"")
        return answers


def make_head(path, count, *lines, method="POST", content_type="application/x-npy"):
    """A request's head; without a Content-Length where there is no count."""
    fields = ["Host: localhost", f"Content-Type: {content_type}", *lines]
    if count is not None:
        fields.append(f"Content-Length: {count}")
    return "\r\n".join([f"{method} {path} HTTP/1.1", *fields, "", ""]).encode()


def make_echo(content):
    """The body of a product whose elements are this content, and its answer's body."""
    file = encode_npy(np.frombuffer(content, np.uint8).reshape(-1, 1))
    return file + ONE, file


def read_answer(connection, *, method="POST"):
    """The next answer's status and body."""
    with HTTPResponse(connection, method=method) as response:
        response.begin()
        return response.status, response.read()


def exchange(server, content, **way):
    """Status and body of the answer to what is sent on a connection of its own."""
    with server.connect(**way) as connection:
        connection.sendall(content)
        return read_answer(connection)


def make_context():
    """A client's view of TLS that believes every certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@contextlib.contextmanager
def serve_wire(folder, way):
    """A server for a block, whose log has no traceback at its end."""
    with WireServer(folder, way) as server:
        yield server
        log = server.read_log()
        assert not {"Traceback", "Fatal"} & set(log.split()), log
