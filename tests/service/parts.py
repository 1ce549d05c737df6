"""The parts of a service without its HTTP side."""

from contextlib import asynccontextmanager
from dataclasses import dataclass

import numpy as np
from sqlalchemy import Engine as Database

from tests.environment import SHARED_SETTINGS
from tests.matrices import make_matrix
from tests.service.drafts import keep_array
from wavetrim.service.engine.engine import Engine
from wavetrim.service.jobs.dispatch import Dispatcher
from wavetrim.service.jobs.job import JobRequest
from wavetrim.service.jobs.lanes.engine_queue import EngineQueue
from wavetrim.service.jobs.live import LiveJobs
from wavetrim.service.jobs.products import Products
from wavetrim.service.jobs.table.store import JobStore
from wavetrim.service.settings import Settings
from wavetrim.service.storage.database.database import open_database
from wavetrim.service.storage.database.shared_commits import SharedCommits
from wavetrim.service.storage.matrices.matrices import MatrixStore
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
    engines: EngineQueue
    products: Products
    dispatcher: Dispatcher

    async def submit(self, asked, key=None):
        """Post one job; returns it, and whether this call made it."""
        (job,), created = await self.dispatcher.submit_all([asked], key)
        return job, created

    def store(self, array):
        """Publish an array as a matrix; returns its id."""
        return keep_array(self.matrices, array).id

    def load(self, matrix_id):
        """The elements of a matrix."""
        assert matrix_id is not None
        return np.load(self.matrices.get(matrix_id).path)

    def store_slow_operand(self, size=1600):
        """A matrix whose square takes seconds (about 3 at 1600): int64 has no fast product."""
        return self.store(make_matrix(size, size, "int64", seed=1))


def ask(a, b, **options):
    """A request for a product."""
    return JobRequest(a=a, b=b, **options)


def make_parts(folder, **settings):
    """Parts that are not started yet."""
    chosen = Settings(**{"data_dir": folder} | SHARED_SETTINGS | settings)
    database = open_database(chosen.database)
    commits = SharedCommits(database)
    matrices = MatrixStore(
        database,
        chosen.matrix_dir,
        max_matrix_bytes=chosen.max_matrix_bytes,
        max_storage_bytes=chosen.max_storage_bytes,
        commits=commits,
    )
    jobs = JobStore(database, commits)
    metrics = Metrics()
    engine = Engine(chosen)
    engines = EngineQueue(engine, chosen, metrics)
    engine.on_ready = engines.advance
    products, live = Products(engines), LiveJobs(jobs, matrices, engines)
    dispatcher = Dispatcher(live, products)
    return Parts(chosen, database, matrices, jobs, engine, metrics, engines, products, dispatcher)


@asynccontextmanager
async def running_parts(folder, **settings):
    """Parts that run, as the service starts and stops them."""
    parts = make_parts(folder, **settings)
    parts.matrices.sweep()
    await parts.engine.start()
    await parts.dispatcher.start()
    try:
        yield parts
    finally:
        await parts.dispatcher.stop()
        await parts.engine.stop()
        parts.database.dispose()
