"""Limits how many long bodies are received at once, as each holds memory and perhaps disk."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Final

from wavetrim.service.api.wire.body_source import SMALL_BODY_BYTES
from wavetrim.service.errors import Crowded
from wavetrim.service.tenants.shares import PARTS

PLACES: Final = 32
"""The most bodies over 64 KiB that are received at once; chosen."""

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
        self._users = 0  # bodies that have a place or wait for one
        self._places = asyncio.Semaphore(most)
        self._shares: dict[str, Bodies] = {}

    def place_for(
        self, length_bytes: int | None, caller: str = ""
    ) -> AbstractAsyncContextManager[None]:
        """A place for one body during the block; a short body needs none.

        Args:
            length_bytes: The body's length; None if it is not known.
            caller: Whose it is; a caller with a name has a share of the places.

        Raises:
            Crowded: All, or all of the caller's, were taken for too long.
        """
        if length_bytes is not None and length_bytes <= SMALL_BODY_BYTES:
            return _FREE
        return self._take_both(caller) if caller else self._take()

    @asynccontextmanager
    async def _take_both(self, caller: str) -> AsyncIterator[None]:
        """A place of the caller's share, and then one of all."""
        share = self._shares.setdefault(caller, Bodies(max(1, self._most // PARTS)))
        try:
            async with share._take(), self._take():
                yield
        finally:
            if not share._users:
                self._shares.pop(caller, None)

    @asynccontextmanager
    async def _take(self) -> AsyncIterator[None]:
        self._users += 1
        try:
            await self._acquire()
            try:
                yield
            finally:
                self._places.release()
        finally:
            self._users -= 1

    async def _acquire(self) -> None:
        try:
            async with asyncio.timeout(PLACE_SECONDS if self._places.locked() else None):
                await self._places.acquire()
        except TimeoutError as error:
            limit = f"at most {self._most}; none ended in {PLACE_SECONDS:g} s"
            raise Crowded("bodies", self._users, limit) from error
