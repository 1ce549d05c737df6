"""Waits for a database that another service uses, or whose server is away, for a limited time."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from typing import Final, TypeVar

from wavetrim.service.storage.errors import DatabaseAway
from wavetrim.service.threads import run_to_end

T = TypeVar("T")
logger = logging.getLogger(__name__)

WAIT_SECONDS: Final = 30.0
"""How long a start waits for a database that does not answer, or is in use; chosen."""

_PAUSE_SECONDS: Final = 0.5


async def wait_for_database(function: Callable[[], T], given_up: asyncio.Event) -> T:
    """Calls a function of a database, in a thread, again and again while the database is away.

    Args:
        function: Such as a `Claiming`, or `open_database` with its URL.
        given_up: Set to stop trying.

    Raises:
        DatabaseAway: It is still away.
        ServiceError: The function's other refusals.
    """
    until = time.monotonic() + WAIT_SECONDS
    told = False
    while True:
        try:
            return await run_to_end(function)
        except DatabaseAway as error:
            if time.monotonic() >= until or given_up.is_set():
                raise
            if not told:
                logger.warning("%s; it is waited for, %g s at most", error, WAIT_SECONDS)
            told = True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(given_up.wait(), _PAUSE_SECONDS)
