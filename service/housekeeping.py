"""Housekeeping: removes what is too old, and tries whether writing works again."""

import asyncio
import logging
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from wavetrim.service.jobs.table.store import JobStore
from wavetrim.service.settings import Settings
from wavetrim.service.storage.database.database import find_reason
from wavetrim.service.storage.folder.data_folder import read_start, try_write
from wavetrim.service.storage.matrices.matrices import MatrixStore
from wavetrim.service.threads import run_to_end

logger = logging.getLogger(__name__)

MAX_FINISHED_JOBS: Final = 50_000
"""The most finished jobs that are remembered; chosen."""

_PERIOD_SECONDS: Final = 5.0
_LONGEST_SECONDS: Final = 60.0
"""The longest time between two searches for what is too old."""

_TRIED_BYTES: Final = 4096


async def keep_house(matrices: MatrixStore, jobs: JobStore, settings: Settings) -> None:
    """Do all of it again and again, until this is cancelled.

    Args:
        matrices: Those that nobody has used for `matrix_ttl_seconds` are removed.
        jobs: Those that ended `job_ttl_seconds` ago are removed, and those beyond
            `MAX_FINISHED_JOBS`.
        settings: The limits.
    """
    kept = [s for s in (settings.matrix_ttl_seconds, settings.job_ttl_seconds) if s]
    between = min([_LONGEST_SECONDS, *(seconds / 4 for seconds in kept)])
    expired_at = -between
    while True:
        works: list[Callable[[], object]] = [
            matrices.rows.resolve_unclear, matrices.unsynced.sync, partial(_try_writing, matrices)
        ]  # fmt: skip
        if time.monotonic() - expired_at >= between:
            expired_at = time.monotonic()
            works.append(partial(_expire, matrices, jobs, settings))
        for work in works:
            try:
                await run_to_end(work)
            except SQLAlchemyError as error:
                logger.warning("housekeeping waits for the database: %s", find_reason(error))
            except OSError as error:
                logger.warning("housekeeping waits for the disk: %s", error)
        await asyncio.sleep(min(_PERIOD_SECONDS, between))


def _expire(matrices: MatrixStore, jobs: JobStore, settings: Settings) -> None:
    """Remove what is too old."""
    start = read_start(matrices.database)
    if removed := matrices.expire(settings.matrix_ttl_seconds, start=start):
        words = "%d matrices were not used for %d s (matrix_ttl_seconds) and are removed"
        logger.info(words, len(removed), settings.matrix_ttl_seconds)
    if ended := jobs.expire(settings.job_ttl_seconds, start=start, most=MAX_FINISHED_JOBS):
        logger.info("%d jobs that had ended are forgotten", ended)


def _try_writing(matrices: MatrixStore) -> None:
    """Write where the last write failed, so that readiness does not wait for a caller."""
    if matrices.commits.failure is not None:
        matrices.commits.add(try_write).result()
    if matrices.stored.failure is not None:
        with tempfile.TemporaryFile(dir=matrices.folder) as file:
            file.write(os.urandom(_TRIED_BYTES))
            file.flush()
            os.fsync(file.fileno())
        matrices.stored.failure = None
