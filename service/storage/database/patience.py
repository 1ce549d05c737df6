"""Waits for a database whose server starts later than the service, for a limited time."""

import asyncio
import contextlib
import logging
import time
from typing import Final

from sqlalchemy import Engine

from wavetrim.service.storage.database.database import open_database
from wavetrim.service.storage.errors import DatabaseAway
from wavetrim.service.threads import run_to_end

logger = logging.getLogger(__name__)

_PAUSE_SECONDS: Final = 0.5


async def open_patiently(url: str, wait_seconds: float, given_up: asyncio.Event) -> Engine:
    """Opens a database (`open_database`), again and again while its server is away.

    Args:
        url: The database.
        wait_seconds: How long to try.
        given_up: Set to stop trying.

    Raises:
        DatabaseAway: Its server is still away.
        DatabaseRefused: It cannot be used.
        SettingRefused: It is no URL of a database.
    """
    until = time.monotonic() + wait_seconds
    told = False
    while True:
        try:
            return await run_to_end(open_database, url)
        except DatabaseAway as error:
            if time.monotonic() >= until or given_up.is_set():
                raise
            if not told:
                logger.warning("%s; it is waited for, %g s at most", error, wait_seconds)
            told = True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(given_up.wait(), _PAUSE_SECONDS)
