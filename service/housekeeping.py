"""Housekeeping: removes what is too old, and tries whether writing works again."""

import asyncio
import logging
import os
import tempfile
import time
from collections.abc import Callable
from typing import Final

from sqlalchemy import Engine
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


class Housekeeping:
    """A background task of the service. To be used from one event loop.

    Args:
        database: The database.
        matrices: Those that nobody has used for `matrix_ttl_seconds` are removed.
        jobs: Those that ended `job_ttl_seconds` ago are removed, and those beyond
            `MAX_FINISHED_JOBS`.
        settings: The limits.
    """

    def __init__(
        self,
        database: Engine,
        matrices: MatrixStore,
        jobs: JobStore,
        settings: Settings,
    ) -> None:
        self._database = database
        self._matrices = matrices
        self._jobs = jobs
        self._settings = settings
        self._expired_at = 0.0

    async def keep(self) -> None:
        """Does all of it again and again, until it is cancelled."""
        kept = [s for s in (self._settings.matrix_ttl_seconds, self._settings.job_ttl_seconds) if s]
        between = min([_LONGEST_SECONDS, *(seconds / 4 for seconds in kept)])
        period = min(_PERIOD_SECONDS, between)
        while True:
            for work in (
                self._matrices.drafts.resolve_unclear,
                self._matrices.unsynced.sync,
                self._try_writing,
            ):
                await self._do(work)
            if time.monotonic() - self._expired_at >= between:
                self._expired_at = time.monotonic()
                await self._do(self.expire)
            await asyncio.sleep(period)

    async def _do(self, work: Callable[[], object]) -> None:
        try:
            await run_to_end(work)
        except SQLAlchemyError as error:
            logger.warning("housekeeping waits for the database: %s", find_reason(error))
        except OSError as error:
            logger.warning("housekeeping waits for the disk: %s", error)

    def expire(self) -> None:
        """Remove what is too old."""
        start = read_start(self._database)
        settings = self._settings
        removed = self._matrices.expire(settings.matrix_ttl_seconds, start=start)
        if removed:
            logger.info(
                "%d matrices were not used for %d s (matrix_ttl_seconds) and are removed",
                len(removed),
                settings.matrix_ttl_seconds,
            )
        ended = self._jobs.expire(settings.job_ttl_seconds, start=start, most=MAX_FINISHED_JOBS)
        if ended:
            logger.info("%d jobs that had ended are forgotten", ended)

    def _try_writing(self) -> None:
        """Write where the last write failed, so that readiness does not wait for a caller."""
        commits, stored = self._matrices.commits, self._matrices.stored
        if commits.failure is not None:
            commits.add(try_write).result()
        if stored.failure is not None:
            with tempfile.TemporaryFile(dir=self._matrices.folder) as file:
                file.write(os.urandom(_TRIED_BYTES))
                file.flush()
                os.fsync(file.fileno())
            stored.failure = None
