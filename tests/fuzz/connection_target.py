"""One connection of the service's own HTTP protocol, fed by hand, without a socket.

The same bytes, whole and cut, must give the application the same requests; whatever is written is
well-formed answers; and when the connection is gone nothing of it is left.
"""

import asyncio
import logging
from typing import Any, Final

import uvicorn
from uvicorn.server import ServerState

from tests.fuzz.answers import split_answers
from tests.fuzz.fault import Fault
from wavetrim.service.api.wire.body_source import RECEIVE_INTO
from wavetrim.service.api.wire.connection import WireProtocol

_TURNS: Final = 30
"""So many turns of the event loop, and whatever a request has started has come to rest."""

Seen = tuple[str, bytes, bytes, bytes]
"""A request as the application has it: method, path, query and body."""


async def _answer(scope: Any, receive: Any, send: Any) -> None:
    """Takes the body, unless the path begins with /c: by pulling it, where it begins with /b."""
    pull = scope["extensions"].get(RECEIVE_INTO)
    body = b""
    if scope["path"].startswith("/b") and pull is not None:
        view = memoryview(bytearray(97))
        try:
            while count := await pull(view):
                body += bytes(view[:count])
        except ConnectionResetError:
            return
    elif not scope["path"].startswith("/c"):
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            more = message.get("more_body", False)
    scope["state"]["seen"].append((scope["method"], scope["raw_path"], scope["query_string"], body))
    headers = [(b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


_CONFIG: Final = uvicorn.Config(
    _answer,
    interface="asgi3",
    proxy_headers=False,
    ws="none",
    lifespan="off",
    log_config=None,
    access_log=False,
)
_CONFIG.load()


class Connection:
    """A connection, and its transport.

    Attributes:
        written: What the service has written.
        seen: The requests that came whole.
    """

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.written = bytearray()
        self.seen: list[Seen] = []
        self.errors: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda _loop, context: self.errors.append(context))
        self.state = ServerState()
        self._transport = _Transport(self.written, loop)
        self.protocol = WireProtocol(
            config=_CONFIG, server_state=self.state, app_state={"seen": self.seen}, _loop=loop
        )
        self._transport.set_protocol(self.protocol)
        self.protocol.connection_made(self._transport)

    async def converse(self, pieces: list[bytes]) -> None:
        """Feed bytes, then the end, and let the connection go.

        Raises:
            Fault: Something of it is left.
        """
        for piece in pieces:
            self._transport.feed(piece)
            await _turn()
        self._transport.feed_end()
        await _turn()
        self._transport.abort()
        await _turn()
        if self.errors:
            raise Fault(f"the event loop heard of {self.errors[0]}") from self.errors[0].get(
                "exception"
            )
        if self.state.tasks or self.state.connections:
            raise Fault(f"left: {self.state.tasks}, {self.state.connections}")


class _Transport(asyncio.Transport):
    """Delivers what it is fed while its protocol reads; what is written leaves at once."""

    def __init__(self, written: bytearray, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._written, self._loop = written, loop
        self._waiting = bytearray()
        self._protocol: Any = None
        self._reading, self._closing, self._lost, self._ended = True, False, False, False

    def feed(self, content: bytes) -> None:
        self._waiting += content
        self._deliver()

    def feed_end(self) -> None:
        self._ended = True
        self._deliver()

    def _deliver(self) -> None:
        while self._waiting and self._reading and not self._closing:
            if isinstance(self._protocol, asyncio.BufferedProtocol):
                buffer = self._protocol.get_buffer(-1)
                count = min(len(buffer), len(self._waiting))
                if not count:
                    raise Fault("a buffer of no bytes")
                buffer[:count] = self._waiting[:count]
                del self._waiting[:count]
                self._protocol.buffer_updated(count)
            else:
                content, self._waiting = bytes(self._waiting), bytearray()
                self._protocol.data_received(content)
        if self._ended and self._reading and not self._waiting and not self._closing:
            self._ended = False
            if not self._protocol.eof_received():
                self.close()

    def write(self, data: Any) -> None:
        if not self._closing:
            self._written += data

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._loop.call_soon(self._lose)

    def abort(self) -> None:
        self.close()

    def _lose(self) -> None:
        if not self._lost:
            self._lost = True
            self._protocol.connection_lost(None)

    def is_closing(self) -> bool:
        return self._closing

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol  # type: ignore[no-any-return]

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        if not self._reading:
            self._reading = True
            self._loop.call_soon(self._deliver)

    def is_reading(self) -> bool:
        return self._reading

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing waits here."""

    def get_write_buffer_size(self) -> int:
        return 0

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        """Whatever is written behind it is a fault, which the answers show."""
        self._written += b"[end]"

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"sockname": ("127.0.0.1", 80), "peername": ("127.0.0.1", 2)}.get(name, default)


_loop: Final = asyncio.new_event_loop()
logging.getLogger("uvicorn.error").setLevel(logging.ERROR)


def check_connection(data: bytes) -> None:
    """Bytes of a connection, behind four that say where they are cut.

    Raises:
        Fault: The protocol has done what it may not.
    """
    content = data[4:]
    places = sorted(place * len(content) // 255 for place in data[:4])
    begins, ends = [0, *places], [*places, len(content)]
    cut = [content[begin:end] for begin, end in zip(begins, ends, strict=True) if end > begin]
    seen = [_loop.run_until_complete(_converse(pieces)) for pieces in ([content], cut)]
    shorter, longer = sorted(seen, key=len)
    # An answer that comes before its body's end, as those of /c may, ends the connection.
    may_end_early = b"/c" in content
    if shorter != (longer[: len(shorter)] if may_end_early else longer):
        raise Fault(f"whole: {seen[0]}, cut: {seen[1]}")


async def _converse(pieces: list[bytes]) -> list[Seen]:
    connection = Connection()
    await connection.converse(pieces)
    written = bytes(connection.written).removesuffix(b"[end]")
    _, rest = split_answers(written, lambda _request: False)
    if rest and b"HEAD" not in b"".join(pieces):  # whose answers have no body
        raise Fault(f"no answer: {rest[:200]!r}")
    return connection.seen


async def _turn() -> None:
    for _ in range(_TURNS):
        await asyncio.sleep(0)
