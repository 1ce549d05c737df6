"""The callers' keys in memory, read again once a second."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from wavetrim.service.tenants.api_keys import ApiKey, digest_key, list_keys
from wavetrim.service.threads import run_to_end

logger = logging.getLogger(__name__)

PERIOD_SECONDS: Final = 1.0
"""How long a change of keys may go unnoticed while the database answers; chosen."""


class KeyRing:
    """The keys of the database as they were last read. To be used from one event loop.

    Attributes:
        empty: Whether no key was ever made, so that none is needed. Revoked keys count, too:
            revoking the last key must not open the service.
    """

    def __init__(self) -> None:
        self._keys: Mapping[str, ApiKey] = {}
        self.empty = True

    def find(self, secret: bytes) -> ApiKey | None:
        """The key, revoked or not; None if there is none."""
        # It is found by its digest, so the time that it takes says nothing about any key.
        return self._keys.get(digest_key(secret))

    def read(self, database: Engine) -> None:
        """Reads the keys."""
        self._keys = {key.digest_sha256: key for key in list_keys(database)}
        self.empty = not self._keys

    async def watch(self, database: Engine) -> None:
        """Reads the keys again and again, until it is cancelled."""
        while True:
            await asyncio.sleep(PERIOD_SECONDS)
            try:
                await run_to_end(self.read, database)
            except SQLAlchemyError as error:
                logger.warning("the keys are those of before, the database is away: %s", error)
