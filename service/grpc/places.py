"""Places for messages: how many are received or held at once, in all and for one caller.

gRPC shows a message only when all of it has come. So a call that sends nothing holds its place like
one whose message is on its way. A caller has a share of the places, so that it cannot shut others
out with such calls.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from wavetrim.service.api.wire.bodies import PLACE_SECONDS, Bodies
from wavetrim.service.errors import QuotaReached
from wavetrim.service.tenants.tenant import Tenant

_SHARES: Final = 4
"""A caller may have one of so many shares of the places, and at least one place; chosen."""


@dataclass(slots=True)
class _Caller:
    """A caller's share.

    Attributes:
        places: Its free places.
        messages: Its messages that have a place or wait for one.
    """

    places: asyncio.Semaphore
    messages: int = 0


class Places:
    """Places for messages, first come, first served. To be used from one event loop.

    Args:
        most: How many there are.
    """

    def __init__(self, most: int) -> None:
        self._all = Bodies(most)
        self._share = max(1, most // _SHARES)
        self._callers: dict[str, _Caller] = {}

    @asynccontextmanager
    async def place_for(self, tenant: Tenant) -> AsyncIterator[None]:
        """A place for one message of a caller during the block.

        Callers without a name may have all places: with the service's own key they may do anything,
        and without any key they cannot be told apart.

        Raises:
            QuotaReached: The caller's own calls held its share for too long.
            Crowded: All places were taken for too long.
        """
        if not tenant.name:
            async with self._all.place_for(None):
                yield
            return
        async with self._take_share(tenant.name), self._all.place_for(None):
            yield

    @asynccontextmanager
    async def _take_share(self, name: str) -> AsyncIterator[None]:
        fresh = _Caller(asyncio.Semaphore(self._share))
        caller = self._callers.setdefault(name, fresh)
        caller.messages += 1
        try:
            await self._wait(caller)
            try:
                yield
            finally:
                caller.places.release()
        finally:
            caller.messages -= 1
            if not caller.messages:
                del self._callers[name]

    async def _wait(self, caller: _Caller) -> None:
        try:
            async with asyncio.timeout(PLACE_SECONDS if caller.places.locked() else None):
                await caller.places.acquire()
        except TimeoutError as error:
            limit = (
                f"at most {self._share} (a caller's share of max_bodies); "
                f"none ended in {PLACE_SECONDS:g} s"
            )
            raise QuotaReached("messages of the caller", caller.messages, limit) from error
