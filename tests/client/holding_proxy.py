"""A proxy that holds answers back until it is told to pass them on."""

import asyncio
import contextlib
from collections.abc import AsyncIterator


class HoldingProxy:
    """A proxy of one service, in the running event loop.

    Args:
        service_port: The service's port.
        line: How the requests begin whose answers are held back.
        lost: How many of these answers are lost before: the connection breaks.
        head_first: Whether the head of an answer is passed on at once.

    Attributes:
        url: Its address.
        serving: Its connections.
        holds: Set once it holds an answer back.
        released: Passes the answer on, when it is set.
    """

    def __init__(self, service_port: int, line: bytes, *, lost: int, head_first: bool) -> None:
        self._service_port = service_port
        self._line = line
        self._to_lose = lost
        self._head_first = head_first
        self.url = ""
        self.serving: list[asyncio.Task[None]] = []
        self.holds = asyncio.Event()
        self.released = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until both sides have closed it."""
        serving = asyncio.current_task()
        assert serving is not None, "each connection has a task"
        self.serving.append(serving)
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._service_port)
        asked = asyncio.Event()
        await asyncio.gather(
            self._forward(reader, far_writer, asked), self._answer(far_reader, writer, asked)
        )
        for each in (writer, far_writer):
            each.close()
            with contextlib.suppress(OSError):
                await each.wait_closed()

    async def _forward(
        self, reader: asyncio.StreamReader, far_writer: asyncio.StreamWriter, asked: asyncio.Event
    ) -> None:
        """Pass requests on."""
        with contextlib.suppress(OSError):
            while piece := await reader.read(65536):
                if piece.startswith(self._line):
                    asked.set()
                far_writer.write(piece)
            far_writer.write_eof()

    async def _answer(
        self, far_reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: asyncio.Event
    ) -> None:
        """Pass answers on."""
        with contextlib.suppress(OSError):
            while piece := await far_reader.read(65536):
                if asked.is_set():
                    asked.clear()
                    if self._to_lose:
                        self._to_lose -= 1
                        break
                    piece = await self._hold(piece, writer)
                writer.write(piece)
        writer.close()

    async def _hold(self, answer: bytes, writer: asyncio.StreamWriter) -> bytes:
        """Wait, with the head passed on or not; returns what is left to be passed on."""
        if self._head_first:
            head, end, answer = answer.partition(b"\r\n\r\n")
            writer.write(head + end)
        self.holds.set()
        await self.released.wait()
        return answer


@contextlib.asynccontextmanager
async def hold_answers(
    service_port: int, line: bytes, *, lost: int = 0, head_first: bool = False
) -> AsyncIterator[HoldingProxy]:
    """Run a `HoldingProxy` until the block ends; its caller must have closed all connections."""
    proxy = HoldingProxy(service_port, line, lost=lost, head_first=head_first)
    listener = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    async with listener:
        yield proxy
        await asyncio.gather(*proxy.serving)
