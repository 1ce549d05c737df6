"""The parts of a service: made, started in order, and stopped in reverse."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from socket import SOCK_SEQPACKET
from typing import TYPE_CHECKING

from sqlalchemy import Engine as Database

from wavetrim.service.api.products.leases import LeaseSocket, find_lease_socket
from wavetrim.service.api.v2.model import InferStatistics
from wavetrim.service.descriptors import Descriptors
from wavetrim.service.engine.cluster import Cluster
from wavetrim.service.engine.engine import Engine
from wavetrim.service.engine.slabs import SharedSlabs
from wavetrim.service.errors import SettingRefused
from wavetrim.service.housekeeping import keep_house
from wavetrim.service.jobs.dispatch import Dispatcher
from wavetrim.service.jobs.lanes.engine_queue import EngineQueue
from wavetrim.service.jobs.live import LiveJobs
from wavetrim.service.jobs.products import Products
from wavetrim.service.jobs.table.store import JobStore
from wavetrim.service.server.listening import claim_socket
from wavetrim.service.settings import Settings
from wavetrim.service.storage.database.claim import wait_for_database
from wavetrim.service.storage.database.shared_commits import SharedCommits
from wavetrim.service.storage.folder.data_folder import claim_folder, pair
from wavetrim.service.storage.matrices.matrices import MatrixStore
from wavetrim.service.storage.memory.arena import Arena
from wavetrim.service.storage.memory.leases import Leases
from wavetrim.service.storage.memory.memory_limit import default_limit
from wavetrim.service.telemetry.metrics import Metrics
from wavetrim.service.tenants.api_keys import KeyRing
from wavetrim.service.tenants.tenant import BODIES, BytesInFlight, Places, Shares
from wavetrim.service.tenants.tokens import make_tokens
from wavetrim.service.threads import in_background, run_to_end

if TYPE_CHECKING:
    from wavetrim.service.telemetry.traces import Traces


class Parts:
    """All parts of a service; those from `database` on are there once it has started.

    Args:
        settings: Its settings.

    Attributes:
        settings: Its settings.
        metrics: Counts what it does.
        descriptors: Counts what callers hold open.
        traces: Makes spans; None if traces are off.
        keys: The callers' keys.
        tokens: Reads the tokens of an issuer; None if there is none.
        given_up: Set to end a start that waits for the database.
        bodies: Limits how many long bodies are received at once.
        infer_statistics: Counts requests of the Open Inference Protocol.
        in_flight: Counts the bytes of requests.
        streams: Shares of the streams of events.
        waits: Shares of the calls that wait for jobs.
        thinking: Held by threads that compute in Python: one at a time.
        database: Its database.
        matrices: Files and rows of stored matrices.
        jobs: Rows of jobs.
        engine: This machine's engine.
        arena: Shared memory for matrices; with a limit of 0 it is switched off.
        leases: Memory that callers on this host share.
        processes: Those that start and stop with the service, the engine's first.
        engines: Where products wait for devices.
        plans: Plans for this machine, by shape.
        products: Computes products in one call.
        news: Changes of jobs.
        dispatcher: Brings jobs to the lane.

    Raises:
        SettingRefused: Something that the settings ask for is missing.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.descriptors = Descriptors(settings.max_connections)
        self.traces = _open_traces(settings)
        self.keys = KeyRing()
        self.tokens = make_tokens(settings)
        self.given_up = asyncio.Event()
        self.bodies = Places(BODIES)
        self.infer_statistics = InferStatistics()
        self.in_flight = BytesInFlight()
        connections = self.descriptors.connections
        self.streams = Shares("streams of events", max(1, connections // 4))
        self.waits = Shares("calls that wait for jobs", max(1, connections // 2))
        self.thinking = asyncio.Lock()

    @asynccontextmanager
    async def run(self, _app: object) -> AsyncIterator[None]:
        """Starts all parts, and lets the running jobs end when the block does."""
        settings = self.settings
        with claim_folder(settings.data_dir):
            database = await wait_for_database(settings.database, settings.data_dir, self.given_up)
            try:
                await run_to_end(pair, database, settings.data_dir)
                self._make(database)
                async with self._run():
                    yield
            finally:
                database.dispose()

    def _make(self, database: Database) -> None:
        """Make the other parts; none of them is started yet."""
        settings, metrics = self.settings, self.metrics
        self.database = database
        limit_bytes = default_limit() if settings.arena_bytes is None else int(settings.arena_bytes)
        self.arena = Arena(limit_bytes=limit_bytes)
        commits = SharedCommits(database)
        self.matrices = MatrixStore(
            database,
            settings.matrix_dir,
            max_matrix_bytes=settings.max_matrix_bytes,
            max_storage_bytes=settings.max_storage_bytes,
            commits=commits,
            arena=self.arena,
        )
        self.jobs = JobStore(database, commits)
        self.engine = Engine(settings)
        self.engine.on_restart = metrics.engine_restarts.inc
        self.matrices.on_removed.append(self.engine.forget_matrix)
        metrics.engine_pid = lambda: self.engine.pid
        cluster = None if settings.ray_address is None else Cluster(settings)
        self.processes = [self.engine] if cluster is None else [self.engine, cluster]
        self.leases = Leases(self.arena, self.in_flight, self.descriptors)
        self.engines = EngineQueue(self.engine, settings, metrics, cluster)
        self.plans = self.engines.plans
        SharedSlabs(self.arena, self.processes, on_ready=self.engines.advance)
        self.products = Products(self.engines, self.traces)
        live = LiveJobs(self.jobs, self.matrices, self.engines, self.traces)
        self.news, self.dispatcher = live.news, Dispatcher(live, self.products)
        if cluster is not None:
            cluster.on_change = self.engines.advance

    @asynccontextmanager
    async def _run(self) -> AsyncIterator[None]:
        """Starts the parts, and stops them in reverse when the block ends."""
        async with AsyncExitStack() as stack:
            if self.traces is not None:
                stack.push_async_callback(run_to_end, self.traces.close)
            await run_to_end(self.keys.read, self.database)
            if self.tokens is not None:
                await stack.enter_async_context(self.tokens.keys.watch())
            watching = in_background(self.keys.watch(self.database), "key-ring")
            await stack.enter_async_context(watching)
            await run_to_end(self.matrices.sweep)
            stack.push_async_callback(self.arena.close)
            # Its first pages take a second; requests that need memory earlier wait for them.
            making = asyncio.create_task(self.arena.start(), name="arena-start")
            stack.push_async_callback(asyncio.wait, {making})
            stack.push_async_callback(run_to_end, self.matrices.close)
            for process in self.processes:
                await process.start()
                stack.push_async_callback(process.stop)
            stack.push_async_callback(self.dispatcher.stop)
            await self.dispatcher.start()
            keeping = keep_house(self.matrices, self.jobs, self.settings)
            await stack.enter_async_context(in_background(keeping, "housekeeping"))
            if self.settings.unix_socket is not None:
                path = find_lease_socket(self.settings.unix_socket)
                listener = stack.enter_context(claim_socket(path, kind=SOCK_SEQPACKET))
                lease_socket = LeaseSocket(listener, self.leases, self.descriptors)
                stack.push_async_callback(lease_socket.close)
            yield
            if not self.dispatcher.draining:
                await self.dispatcher.drain(self.settings.drain_seconds)


def _open_traces(settings: Settings) -> "Traces | None":
    if settings.traces == "off":
        return None
    try:
        from wavetrim.service.telemetry.traces import Traces
    except ModuleNotFoundError as error:
        limit = "off, as OpenTelemetry is not installed (pip install 'wavetrim[otel]')"
        raise SettingRefused("traces", settings.traces, limit) from error
    return Traces()
