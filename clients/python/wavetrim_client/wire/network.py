"""Waiting, in a thread or in an event loop: the only difference between the two clients.

Everything else is written once, as coroutines over non-blocking sockets. With `AsyncioNetwork` they
are awaited. With `BlockingNetwork` they never suspend, so `run` completes them in one step.
"""

import asyncio
import select
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Final, Protocol, TypeVar

T = TypeVar("T")

_READABLE = select.POLLIN | select.POLLHUP | select.POLLERR

_MOST_MILLISECONDS: Final = 2**31 - 1
"""The longest time that poll(2) takes: 25 days."""


class Network(Protocol):
    """How a client waits."""

    async def wait(
        self, sock: socket.socket, *, read: bool, write: bool, timeout_seconds: float | None
    ) -> None:
        """Wait until a socket can be read (if `read`) or written (if `write`).

        Raises:
            TimeoutError: Neither within `timeout_seconds`; None waits without limit.
        """

    async def resolve(self, host: str, port: int) -> list[Any]:
        """The addresses of a host, as `socket.getaddrinfo` returns them."""

    async def sleep(self, seconds: float) -> None:
        """Sleep."""

    async def compute(self, function: Callable[[], T]) -> T:
        """Call a function that takes long: disk access, or a large copy."""


class BlockingNetwork:
    """Waits in the calling thread."""

    async def wait(
        self, sock: socket.socket, *, read: bool, write: bool, timeout_seconds: float | None
    ) -> None:
        """Wait with poll(2)."""
        poll = select.poll()
        poll.register(sock, (select.POLLIN if read else 0) | (select.POLLOUT if write else 0))
        limit = None if timeout_seconds is None else min(timeout_seconds * 1e3, _MOST_MILLISECONDS)
        if not poll.poll(limit):
            raise TimeoutError

    async def resolve(self, host: str, port: int) -> list[Any]:
        """Ask the system."""
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)

    async def sleep(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(seconds)  # noqa: ASYNC251 - no event loop runs this

    async def compute(self, function: Callable[[], T]) -> T:
        """Call it."""
        return function()


class AsyncioNetwork:
    """Waits in the running event loop, asyncio's or uvloop's."""

    async def wait(
        self, sock: socket.socket, *, read: bool, write: bool, timeout_seconds: float | None
    ) -> None:
        """Wait with the loop's readers and writers."""
        loop = asyncio.get_running_loop()
        ready = loop.create_future()
        file = sock.fileno()
        if read:
            loop.add_reader(file, _wake, ready)
        if write:
            loop.add_writer(file, _wake, ready)
        try:
            async with asyncio.timeout(timeout_seconds):
                await ready
        finally:
            if read:
                loop.remove_reader(file)
            if write:
                loop.remove_writer(file)

    async def resolve(self, host: str, port: int) -> list[Any]:
        """Ask the system in a thread."""
        loop = asyncio.get_running_loop()
        return await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)

    async def sleep(self, seconds: float) -> None:
        """Sleep."""
        await asyncio.sleep(seconds)

    async def compute(self, function: Callable[[], T]) -> T:
        """Call it in a thread."""
        return await asyncio.to_thread(function)


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that uses `BlockingNetwork`."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    coroutine.close()
    raise RuntimeError("a coroutine of the blocking client was suspended")


def iterate(items: AsyncIterator[T]) -> Iterator[T]:
    """The items of an iterator that uses `BlockingNetwork`."""

    async def take() -> T:
        return await anext(items)

    while True:
        try:
            item = run(take())
        except StopAsyncIteration:
            return
        yield item


def is_readable(sock: socket.socket) -> bool:
    """Whether a socket has bytes, or the end of the stream, to be read now."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return any(event & _READABLE for _, event in poll.poll(0))


def _wake(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
