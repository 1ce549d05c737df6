"""The parts of a service without its HTTP side."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import Engine as Database

from tests.environment import SHARED_SETTINGS
from tests.matrices import Array, make_matrix
from wavetrim.service.api.jobs.job_schemas import JobRequest
from wavetrim.service.engine.engine import Engine
from wavetrim.service.engine.fleet import Fleet
from wavetrim.service.engine.supervisor import Watch
from wavetrim.service.jobs.dispatch import Dispatcher
from wavetrim.service.jobs.lanes.lane import Lane
from wavetrim.service.jobs.news import JobNews
from wavetrim.service.jobs.products import Products
from wavetrim.service.jobs.table.store import JobStore
from wavetrim.service.settings import Settings
from wavetrim.service.storage.database.database import open_database
from wavetrim.service.storage.disk.disk_writer import DiskWriter
from wavetrim.service.storage.matrices.kept import KeptMatrices
from wavetrim.service.storage.matrices.matrices import MatrixStore
from wavetrim.service.storage.matrices.residents import Residents
from wavetrim.service.telemetry.metrics import Metrics


@dataclass(frozen=True, slots=True)
class Parts:
    """What a service is made of."""

    settings: Settings
    database: Database
    matrices: MatrixStore
    jobs: JobStore
    engine: Engine
    metrics: Metrics
    lane: Lane
    dispatcher: Dispatcher

    def store(self, array: Array) -> str:
        """Publish an array as a matrix; returns its id."""
        rows, columns = array.shape
        pending = self.matrices.allocate(rows, columns, str(array.dtype))
        mapped = np.memmap(pending.path, array.dtype, "r+", pending.offset_bytes, (rows, columns))
        mapped[...] = array
        return self.matrices.publish(pending).id

    def load(self, matrix_id: str | None) -> Array:
        """The elements of a matrix."""
        assert matrix_id is not None
        loaded: Array = np.load(self.matrices.get(matrix_id).path)
        return loaded

    def store_slow_operand(self, size: int = 1600) -> str:
        """A matrix whose square takes seconds (about 3 at 1600): int64 has no fast product."""
        return self.store(make_matrix(size, size, "int64", seed=1))


def ask(a: str, b: str, **options: Any) -> JobRequest:
    """A request for a product."""
    return JobRequest(a=a, b=b, **options)


def make_parts(folder: Path, *, watch: Watch | None = None, **settings: Any) -> Parts:
    """Parts that are not started yet."""
    chosen = Settings(**{"data_dir": folder} | SHARED_SETTINGS | settings)
    database = open_database(chosen.database)
    matrices = MatrixStore(
        database,
        chosen.matrix_dir,
        max_matrix_bytes=chosen.max_matrix_bytes,
        max_storage_bytes=chosen.max_storage_bytes,
    )
    jobs = JobStore(database)
    metrics = Metrics()
    engine = Engine(chosen, watch=watch, on_restart=metrics.engine_restarts.inc)
    lane = Lane(Fleet(engine))
    engine.on_ready = lane.advance
    products = Products(lane, engine, chosen, metrics)
    writer = DiskWriter()
    kept = KeptMatrices(matrices, None, Residents(), writer)
    dispatcher = Dispatcher(
        jobs, matrices, engine, lane=lane, products=products, kept=kept,
        news=JobNews(), settings=chosen, metrics=metrics,
    )  # fmt: skip
    return Parts(chosen, database, matrices, jobs, engine, metrics, lane, dispatcher)


@asynccontextmanager
async def running_parts(
    folder: Path, *, watch: Watch | None = None, **settings: Any
) -> AsyncIterator[Parts]:
    """Parts that run, as the service starts and stops them."""
    parts = make_parts(folder, watch=watch, **settings)
    parts.matrices.sweep()
    await parts.engine.start()
    await parts.dispatcher.start()
    try:
        yield parts
    finally:
        await parts.dispatcher.stop()
        await parts.engine.stop()
        parts.database.dispose()
