"""A small ASGI application over the wire's extensions, and a server for it.

    python -m tests.service.api.wire.wire_app (tcp | unix PATH | tls CERTIFICATE KEY)

It prints its port, or the path, when it listens.
"""

import asyncio
import json
import logging
import mmap
import random
import socket
import sys
from functools import cache, partial
from typing import Any, cast
from urllib.parse import parse_qs

import uvicorn
from starlette.requests import ClientDisconnect, Request

from wavetrim.service.api.problems import describe_error
from wavetrim.service.api.wire.connection import WireProtocol
from wavetrim.service.api.wire.exchange import EXCHANGE
from wavetrim.service.api.wire.reader import BodyReader
from wavetrim.service.api.wire.refusal import WireLimits
from wavetrim.service.api.wire.sender import send_views
from wavetrim.service.errors import ServiceError

MIB = 2**20
ARENA_BYTES = 80 * MIB
POISON = b"\xee"
GRACEFUL_SECONDS = 2
LIMITS = WireLimits(head_seconds=2.0)


class WireApp:
    """Answers `POST /echo` and its like from one piece of memory, which it poisons in between."""

    def __init__(self) -> None:
        self.memory = mmap.mmap(-1, ARENA_BYTES)
        self.events: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handles one request."""
        if scope["type"] != "http":
            return
        asked = {k: v[0] for k, v in parse_qs(scope["query_string"].decode()).items()}
        name = scope["path"].strip("/").replace("-", "_")
        try:
            await getattr(self, name)(scope, receive, send, **asked)
        except ServiceError as error:
            await describe_error(error)(scope, receive, send)
        except ClientDisconnect:
            self.events.append("left")
        except asyncio.CancelledError:
            self.events.append("cancelled")
            raise

    async def echo(self, scope: Any, receive: Any, send: Any, *, seed: str = "0") -> None:
        """Reads the body in pieces of all sizes, and sends it back."""
        reader = BodyReader(Request(scope, receive))
        count = reader.length_bytes
        assert count is not None
        with memoryview(self.memory) as memory, memory[:count] as place:
            source = random.Random(seed)
            cuts = sorted(source.randint(0, count) for _ in range(3))
            for begin, end in zip([0, *cuts], [*cuts, count], strict=True):
                await reader.read_into(place[begin:end])
            await reader.finish()
            await send_views(scope, send, status=200, headers=[], views=[place])
            place[:] = POISON * count

    async def small(self, scope: Any, receive: Any, send: Any) -> None:
        """Reads a short body at once, and sends it back."""
        reader = BodyReader(Request(scope, receive))
        content = await reader.read_rest(2**16)
        await reader.finish()
        await send_views(scope, send, status=200, headers=[], views=[memoryview(content)])

    async def plain(self, scope: Any, receive: Any, send: Any) -> None:
        """Reads the body as every ASGI application does, and sends it back."""
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        await answer(send, 200, body)

    async def refuse(
        self, scope: Any, receive: Any, send: Any, *, after: str = "0", wait: str = "0"
    ) -> None:
        """Refuses a body when some bytes of it are taken and some seconds are over."""
        if int(after):
            with memoryview(self.memory) as memory, memory[: int(after)] as place:
                await BodyReader(Request(scope, receive)).read_into(place)
        await asyncio.sleep(float(wait))
        await answer(send, 413, b"too much")

    async def large(self, scope: Any, receive: Any, send: Any, *, count: str) -> None:
        """Sends an answer of a length, and poisons its memory at once."""
        with memoryview(self.memory) as memory, memory[: int(count)] as place:
            place[:] = make_content(count)
            await send_views(scope, send, status=200, headers=[], views=[place])
            place[:] = POISON * int(count)

    async def give_up(self, scope: Any, receive: Any, send: Any, *, seconds: str) -> None:
        """Stops pulling after some time, and says whether anything is written from then on."""
        with memoryview(self.memory) as memory, memory[: 2**20] as place:
            try:
                async with asyncio.timeout(float(seconds)):
                    await scope[EXCHANGE].receive_into(place, idle_seconds=20)
            except TimeoutError:
                place[:] = POISON * len(place)
            await asyncio.sleep(0.3)
            clean = place == POISON * len(place)
        await answer(send, 200, b"clean" if clean else b"written to")

    async def stall(self, scope: Any, receive: Any, send: Any) -> None:
        """Pulls a body with patience of a third of a second."""
        reader = BodyReader(Request(scope, receive))
        reader.idle_seconds = 0.3
        with memoryview(self.memory) as memory, memory[: reader.length_bytes] as place:
            await reader.read_into(place)
        await answer(send, 200, b"all")

    async def wait_left(self, scope: Any, receive: Any, send: Any) -> None:
        """Pulls a body, then waits until the client leaves."""
        reader = BodyReader(Request(scope, receive))
        with memoryview(self.memory) as memory, memory[: reader.length_bytes] as place:
            await reader.read_into(place)
        self.events.append("body")
        while (await receive())["type"] != "http.disconnect":
            pass
        raise ClientDisconnect

    async def slow(self, scope: Any, receive: Any, send: Any, *, seconds: str) -> None:
        """Answers after some time, unless the client leaves before."""
        while (message := await receive()).get("more_body"):
            pass
        leaving = asyncio.ensure_future(receive())
        done, _ = await asyncio.wait({leaving}, timeout=float(seconds))
        if done or message["type"] == "http.disconnect":
            raise ClientDisconnect
        leaving.cancel()
        await answer(send, 200, b"slow")

    async def list_events(self, scope: Any, receive: Any, send: Any) -> None:
        """Says what has happened since it was asked last."""
        content, self.events = json.dumps(self.events).encode(), []
        await answer(send, 200, content)


@cache
def make_content(count: str) -> bytes:
    """What an answer of this length holds."""
    return random.Random(count).randbytes(int(count))


async def answer(send: Any, status: int, body: bytes) -> None:
    """Answers with a short body."""
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class AnnouncedServer(uvicorn.Server):
    """Says where it listens."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts to listen."""
        await super().startup(sockets)
        address = self.servers[0].sockets[0].getsockname()
        print(address if isinstance(address, str) else address[1], flush=True)


def main(way: str, *options: str) -> None:
    """Serves until a signal comes."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    where: dict[str, Any] = {"port": 0}
    if way == "unix":
        where = {"uds": options[0]}
    elif way == "tls":
        where |= {"ssl_certfile": options[0], "ssl_keyfile": options[1]}
    config = uvicorn.Config(
        WireApp(),
        loop="uvloop",
        http=cast("Any", partial(WireProtocol, limits=LIMITS)),
        ws="none",
        lifespan="off",
        log_config=None,
        timeout_graceful_shutdown=GRACEFUL_SECONDS,
        timeout_keep_alive=1,
        **where,
    )
    AnnouncedServer(config).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
