"""Limits how many long bodies are received at once, as each holds memory and perhaps disk."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Final

from wavetrim.service.api.wire.body_source import SMALL_BODY_BYTES
from wavetrim.service.errors import Crowded

PLACE_SECONDS: Final = 10.0
"""How long a body waits for a place; chosen. Nothing of it is received before."""

_FREE: Final = nullcontext()


class Bodies:
    """Places for bodies, first come, first served.

    Args:
        most: How many there are.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting = 0
        self._places = asyncio.Semaphore(most)

    def place_for(self, length_bytes: int | None) -> AbstractAsyncContextManager[None]:
        """A place for one body during the block; a short body needs none.

        Args:
            length_bytes: The body's length; None if it is not known.

        Raises:
            Crowded: All were taken for too long.
        """
        if length_bytes is not None and length_bytes <= SMALL_BODY_BYTES:
            return _FREE
        return self._take()

    @asynccontextmanager
    async def _take(self) -> AsyncIterator[None]:
        self._waiting += 1
        try:
            async with asyncio.timeout(PLACE_SECONDS if self._places.locked() else None):
                await self._places.acquire()
        except TimeoutError as error:
            limit = f"at most {self._most} (max_bodies); none ended in {PLACE_SECONDS:g} s"
            raise Crowded("bodies", self._most + self._waiting, limit) from error
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._places.release()
