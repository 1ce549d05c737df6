"""The public keys of a token issuer: a JWKS (RFC 7517), read from its URL or from a file.

It is read when the service starts, every five minutes, and when a token names an unknown key: then
at most once in ten seconds, since anybody can send such tokens. While it cannot be read, the old
keys are used for up to an hour.
"""

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from wavetrim.service.errors import IssuerAway, SettingRefused
from wavetrim.service.tenants.jwks import IssuerKey, JwksRefused, JwksSource
from wavetrim.service.threads import finish, in_background, run_to_end

logger = logging.getLogger(__name__)

PERIOD_SECONDS: Final = 300.0
"""Time between two reads, and so the longest use of a key that the issuer has withdrawn; chosen."""

PAUSE_SECONDS: Final = 10.0
"""Least time between two reads for unknown keys, or after a failed read; chosen."""

STALE_SECONDS: Final = 3600.0
"""How long keys are used that cannot be read again; chosen."""


class IssuerKeys:
    """The keys as they were last read. To be used from one event loop.

    Args:
        source: Where they are.
        pause_seconds: Least time between two reads for unknown keys.
    """

    def __init__(self, source: JwksSource, *, pause_seconds: float = PAUSE_SECONDS) -> None:
        self._source = source
        self._pause_seconds = pause_seconds
        self._keys: tuple[IssuerKey, ...] = ()
        self._read_at = self._looked_at = -math.inf
        self._reading = asyncio.Lock()
        self.on_change: Callable[[], None] = lambda: None

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[None]:
        """Read the keys, and read them regularly until the block ends.

        Raises:
            SettingRefused: They are in a file that cannot be read.
        """
        await self._read()
        if self._read_at != self._looked_at and self._source.is_file:
            raise SettingRefused("jwt_jwks", self._source.location, "a JWKS (RFC 7517)")
        async with in_background(self._read_again(), "issuer-keys"):
            yield

    async def find(self, kid: str | None, algorithm: str) -> IssuerKey | None:
        """The key that verifies a token; None if the issuer has no such key.

        Args:
            kid: The key's id; without it the issuer must have exactly one key for the algorithm.
            algorithm: The token's algorithm.

        Raises:
            IssuerAway: The key is unknown, and the issuer's keys cannot be read.
        """
        key = self._pick(kid, algorithm)
        if key is not None:
            return key
        async with self._reading:  # one reads for all who ask at the same time
            key = self._pick(kid, algorithm)
            if key is None and time.monotonic() - self._looked_at >= self._pause_seconds:
                await finish(self._read())
                key = self._pick(kid, algorithm)
        if key is None and self._read_at != self._looked_at:
            raise IssuerAway(self._pause_seconds)
        return key

    def _pick(self, kid: str | None, algorithm: str) -> IssuerKey | None:
        fitting = [
            key
            for key in self._keys
            if algorithm in key.algorithms and (kid is None or kid == key.kid)
        ]
        return fitting[0] if len(fitting) == 1 else None

    async def _read(self) -> None:
        """Read the keys. No error may end the reading: withdrawn keys would be good for ever."""
        self._looked_at = now = time.monotonic()
        source = f"WAVETRIM_JWT_JWKS, {self._source.shown}"
        try:
            keys = await run_to_end(self._source.read)
        except Exception as error:
            log = logger.warning if isinstance(error, OSError | JwksRefused) else logger.exception
            log("the keys of the token issuer cannot be read (%s): %s", source, error)
            if time.monotonic() - self._read_at > STALE_SECONDS:
                self._set(())
        else:
            self._read_at = now
            self._set(keys)

    def _set(self, keys: tuple[IssuerKey, ...]) -> None:
        if keys != self._keys:
            logger.info("the token issuer has %d keys", len(keys))
            self._keys = keys
            self.on_change()

    async def _read_again(self) -> None:
        while True:
            is_away = self._read_at != self._looked_at
            await asyncio.sleep(self._pause_seconds if is_away else PERIOD_SECONDS)
            async with self._reading:
                await finish(self._read())
