"""A server that answers by a script, and may break connections."""

import contextlib
import re
import socket
import threading
from dataclasses import dataclass

"""The bytes that answer a request, or a function of the request that makes them."""


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
    """Serve each request with the next reply, and later ones with the last.

    Args:
        replies: The replies, in order.
        close: Whether the connection is closed after each.
        read_body: Whether a request's body is read before the reply.
        context: Makes the server speak TLS.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        scheme = "http" if context is None else "https"
        url = ScriptedUrl(f"{scheme}://127.0.0.1:{listener.getsockname()[1]}")
        url.requests = []
        opened: list[socket.socket] = []
        ended = threading.Event()

        def answer_one(connection):
            received = _receive(connection, read_body=read_body)
            if received is None:
                return False
            reply = replies[min(len(url.requests), len(replies) - 1)]
            url.requests.append(received)
            connection.sendall(reply if isinstance(reply, bytes) else reply(received))
            return not close

        def run():
            while True:
                connection, _ = listener.accept()
                if ended.is_set():
                    return connection.close()
                with contextlib.suppress(OSError):
                    connection = context.wrap_socket(connection, True) if context else connection
                    opened.append(connection)
                    while answer_one(connection):
                        pass
                if close:
                    connection.close()

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield url
        finally:
            ended.set()
            for connection in opened:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            socket.create_connection(listener.getsockname()).close()
            thread.join()
            for connection in opened:
                connection.close()


def _receive(connection, *, read_body):
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            return None
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    line, *fields = head.decode().split("\r\n")
    pairs = (re.split(r":\s*", each, maxsplit=1) for each in fields)
    headers = {name.lower(): value for name, value in pairs}
    content = bytearray(body)
    while read_body and len(content) < int(headers.get("content-length", 0)):
        content += connection.recv(2**20)
    return Received(line.removesuffix(" HTTP/1.1"), headers, bytes(content))
