"""Calls: a request with its repetitions, and what its answer means."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from ..errors import (
    NotFound,
    ServiceBusy,
    ServiceRefused,
    ServiceTimeout,
    ServiceUnreachable,
    read_refusal,
)
from .request import Answer, Request
from .retries import Retries
from .transport import Transport

T = TypeVar("T")


class Calls:
    """Calls one service, and turns its problems into errors.

    Args:
        transport: The way to it.
        retries: What is sent again, and when.
    """

    def __init__(self, transport: Transport, retries: Retries) -> None:
        self.transport = transport
        self._retries = retries

    async def receive(self, request: Request, read: Callable[[Answer], Awaitable[T]]) -> T:
        """Send a request and have its answer read; both again, where that is of use.

        Raises:
            ServiceUnreachable: There was no answer.
            ServiceRefused: It answered with a problem.
        """
        made = 0
        while True:
            try:
                async with self.transport.exchange(request) as answer:
                    if not 200 <= answer.status < 300:
                        raise await _judge(answer)
                    return await read(answer)
            except (ServiceUnreachable, ServiceBusy) as error:
                made += 1
                pause = self._retries.find_pause(error, made=made, repeatable=request.repeatable)
                if pause is None:
                    raise
            await self.transport.network.sleep(pause)

    async def ask(self, request: Request) -> Any:
        """The JSON that a request is answered with; errors as `receive` has them."""

        async def read(answer: Answer) -> Any:
            content = await answer.read()
            try:
                return json.loads(content)
            except ValueError as error:
                shown = content[:60].decode(errors="replace")
                reason = f"its answer is not JSON but {shown!r}"
                raise ServiceUnreachable(self.transport.url, reason) from error

        return await self.receive(request, read)

    async def get(self, path: str, **query: Any) -> Any:
        """The JSON that lies under a path."""
        return await self.ask(Request("GET", path, query, repeatable=True))

    async def list_pages(self, path: str, **query: Any) -> AsyncIterator[dict[str, Any]]:
        """The pages of a list, asked for one by one."""
        cursor: str | None = None
        while True:
            page = await self.get(path, cursor=cursor, **query)
            yield page
            cursor = page["next_cursor"]
            if cursor is None:
                return

    async def remove(self, path: str) -> None:
        """Delete what is there; it is gone, too, when a try whose answer was lost has done it.

        Raises:
            NotFound: It was not there.
        """
        request = Request("DELETE", path)
        try:
            await self.receive(request, _read_nothing)
        except ServiceTimeout:
            raise
        except ServiceUnreachable:
            try:
                again = Request("DELETE", path, repeatable=True)
                await self.receive(again, _read_nothing)
            except NotFound:
                return


async def _read_nothing(answer: Answer) -> None:
    await answer.read()


async def _judge(answer: Answer) -> ServiceRefused:
    """The error that an answer stands for."""
    content = await answer.read()
    try:
        problem = json.loads(content)
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        problem = {"detail": content[:200].decode(errors="replace")}
    return read_refusal(answer.status, problem, retry_after=answer.headers.get("retry-after"))
