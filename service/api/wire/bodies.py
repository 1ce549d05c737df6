"""Limits how many long bodies are received at once, as each holds memory and perhaps disk."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from wavetrim.service.errors import Crowded
from wavetrim.service.tenants.shares import PARTS

PLACES: Final = 32
"""The most bodies over 64 KiB that are received at once; chosen."""

PLACE_SECONDS: Final = 10.0
"""How long a body waits for a place; chosen. Nothing of it is received before."""


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

    @asynccontextmanager
    async def take(self, caller: str) -> AsyncIterator[None]:
        """A place for one body during the block: of the caller's share, and then of all.

        Args:
            caller: Whose it is; one without a name may have all places.

        Raises:
            Crowded: All, or all of the caller's, were taken for too long.
        """
        needed = [self]
        if caller:
            quarter = max(1, self._most // PARTS)
            needed.insert(0, self._shares.setdefault(caller, Bodies(quarter)))
        for one in needed:
            one._users += 1
        taken: list[Bodies] = []
        try:
            for one in needed:
                await one._acquire()
                taken.append(one)
            yield
        finally:
            for one in taken:
                one._places.release()
            for one in needed:
                one._users -= 1
            if not needed[0]._users:
                self._shares.pop(caller, None)

    async def _acquire(self) -> None:
        try:
            async with asyncio.timeout(PLACE_SECONDS if self._places.locked() else None):
                await self._places.acquire()
        except TimeoutError as error:
            limit = f"at most {self._most}; none ended in {PLACE_SECONDS:g} s"
            raise Crowded("bodies", self._users, limit) from error
