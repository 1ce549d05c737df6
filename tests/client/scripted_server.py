"""A server that answers by a script, and may break connections."""

import contextlib
import socket
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer


@dataclass
class Received:
    """A request.

    Attributes:
        line: Method and target.
        headers: By their names in lower case.
        body: The body, as far as it was received.
    """

    line: str
    headers: dict[str, str]
    body: bytes


def answer(content, status=200, **headers):
    """An answer with its length."""
    fields = {"Content-Length": len(content), **headers}
    lines = [f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items()]
    return f"HTTP/1.1 {status} Scripted\r\n{''.join(lines)}\r\n".encode() + content


class ScriptedUrl(str):
    """The server's address.

    Attributes:
        requests: All requests so far.
    """

    requests: list[Received]


@contextlib.contextmanager
def serve_script(replies, *, close=True, read_body=True, context=None):
    """Serve each request with the next reply, and later ones with the last; one connection a time.

    Args:
        replies: The replies, in order: bytes, or functions of the request that make them.
        close: Whether the connection is closed after each.
        read_body: Whether a request's body is read before the reply.
        context: Makes the server speak TLS.
    """
    connections: list[socket.socket] = []
    ended = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def reply(self):
            length = int(self.headers.get("content-length", 0)) if read_body else 0
            headers = {
                name.lower(): it.encode("latin-1").decode() for name, it in self.headers.items()
            }
            received = Received(f"{self.command} {self.path}", headers, self.rfile.read(length))
            chosen = replies[min(len(url.requests), len(replies) - 1)]
            url.requests.append(received)
            self.wfile.write(chosen if isinstance(chosen, bytes) else chosen(received))
            self.close_connection = close

        do_GET = do_POST = do_DELETE = do_PATCH = reply  # noqa: N815

        def log_message(self, *_):
            pass

    class Server(HTTPServer):
        def get_request(self):
            connection, address = super().get_request()
            return context.wrap_socket(connection, True) if context else connection, address

        def verify_request(self, connection, _):
            connections.append(connection)
            return not ended.is_set()

        def handle_error(self, *_):
            """The connection is broken."""

    with Server(("127.0.0.1", 0), Handler) as server:
        scheme = "http" if context is None else "https"
        url = ScriptedUrl(f"{scheme}://127.0.0.1:{server.server_port}")
        url.requests = []
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield url
        finally:
            ended.set()
            for connection in connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            server.shutdown()
            thread.join()
