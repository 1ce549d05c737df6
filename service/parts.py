"""The parts of a service: started in order, stopped in reverse."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from socket import SOCK_SEQPACKET

from fastapi import FastAPI
from sqlalchemy import Engine as Database

from wavetrim.service.api.products.lease_socket import LeaseSocket, find_lease_socket
from wavetrim.service.api.v2.statistics import InferStatistics
from wavetrim.service.api.wire.bodies import PLACES, Bodies
from wavetrim.service.descriptors import Descriptors
from wavetrim.service.engine.cluster import Cluster
from wavetrim.service.engine.engine import Engine
from wavetrim.service.engine.fleet import Fleet
from wavetrim.service.engine.slabs import SharedSlabs
from wavetrim.service.engine.supervisor import Supervisor
from wavetrim.service.housekeeping import Housekeeping
from wavetrim.service.jobs.dispatch import Dispatcher
from wavetrim.service.jobs.lanes.lane import Lane
from wavetrim.service.jobs.news import JobNews
from wavetrim.service.jobs.products import Products
from wavetrim.service.jobs.table.store import JobStore
from wavetrim.service.settings import Settings
from wavetrim.service.storage.arena.arena import Arena
from wavetrim.service.storage.arena.memory_limit import default_limit
from wavetrim.service.storage.database.claim import Claiming
from wavetrim.service.storage.database.patience import wait_for_database
from wavetrim.service.storage.database.write_record import WriteRecord, watch_writes
from wavetrim.service.storage.disk.commit_gate import CommitGate, watch_commits
from wavetrim.service.storage.disk.disk_writer import DiskWriter
from wavetrim.service.storage.disk.free_space import RESERVE_BYTES
from wavetrim.service.storage.folder.data_folder import claim_folder
from wavetrim.service.storage.folder.identity import pair
from wavetrim.service.storage.matrices.kept import KeptMatrices
from wavetrim.service.storage.matrices.matrices import MatrixStore
from wavetrim.service.storage.matrices.residents import Residents
from wavetrim.service.storage.memory.leases import Leases
from wavetrim.service.storage.memory.room import Rooms
from wavetrim.service.tenants.bytes_in_flight import BytesInFlight
from wavetrim.service.tenants.shares import Shares
from wavetrim.service.threads import run_to_end
from wavetrim.service.unix_socket import claim_socket


@asynccontextmanager
async def run_parts(app: FastAPI) -> AsyncIterator[None]:
    """Starts database, stores, engine and dispatcher; lets the running job end when it stops."""
    settings: Settings = app.state.settings
    with claim_folder(settings.data_dir):
        claiming = Claiming(settings.database, settings.data_dir)
        database = await wait_for_database(claiming, app.state.given_up)
        try:
            await run_to_end(pair, database, settings.data_dir)
            parts = _make_parts(app, database)
            async with _run(app, parts):
                yield
        finally:
            database.dispose()


@asynccontextmanager
async def _run(app: FastAPI, parts: "_Parts") -> AsyncIterator[None]:
    """Starts the parts, and stops them in reverse when the block ends."""
    state, settings = app.state, app.state.settings
    await run_to_end(state.keys.read, state.database)
    if state.tokens is not None:
        await state.tokens.keys.start()
    state.keys.start(state.database)
    await run_to_end(state.matrices.sweep)
    for process in state.fleet.processes:
        await process.start()
    # The arena's first pages take a second; requests that need memory earlier wait for them.
    making = asyncio.create_task(parts.start_arena(), name="arena-start")
    try:
        await state.dispatcher.start()
        parts.housekeeping.start()
        with _hand_out_leases(settings, state.leases, state.descriptors):
            yield
            if not state.dispatcher.draining:
                await state.dispatcher.drain(settings.drain_seconds)
    finally:
        await state.keys.stop()
        if state.tokens is not None:
            await state.tokens.keys.stop()
        await parts.housekeeping.stop()
        await state.dispatcher.stop()
        for process in state.fleet.processes:
            await process.stop()
        await run_to_end(parts.writer.close)
        parts.residents.clear()
        await making
        if state.arena is not None:
            await state.arena.close()
        if state.traces is not None:
            await run_to_end(state.traces.close)


@dataclass(frozen=True, slots=True)
class _Parts:
    """The parts that no route asks for."""

    arena: Arena | None
    residents: Residents
    writer: DiskWriter
    housekeeping: Housekeeping

    async def start_arena(self) -> None:
        """Make the arena's first slab."""
        if self.arena is not None:
            await self.arena.start()


def _make_parts(app: FastAPI, database: Database) -> _Parts:
    """Makes the parts; those that routes use are put into the application's state."""
    state, settings, counters = app.state, app.state.settings, app.state.metrics
    state.database, state.writes = database, WriteRecord()
    watch_writes(database, state.writes)
    gate = CommitGate()
    watch_commits(database, gate)
    writer = DiskWriter(gate=gate)
    state.matrices = store = MatrixStore(
        database,
        settings.matrix_dir,
        max_matrix_bytes=settings.max_matrix_bytes,
        max_storage_bytes=settings.max_storage_bytes,
        reserve_bytes=RESERVE_BYTES,
        writes=state.writes,
    )
    state.jobs = JobStore(database)
    state.engine = engine = Engine(settings, on_restart=counters.engine_restarts.inc)
    store.on_removed.append(engine.forget_matrix)
    state.arena = arena = _make_arena(settings)
    state.in_flight = BytesInFlight()
    residents = Residents()
    state.kept = KeptMatrices(store, arena, residents, writer)
    state.rooms = Rooms(arena, settings.matrix_dir, reserve_bytes=RESERVE_BYTES)
    state.leases = Leases(arena, state.in_flight, state.descriptors)
    cluster = None if settings.ray_address is None else Cluster(settings)
    state.fleet = fleet = Fleet(engine, cluster)
    state.lane = lane = Lane(fleet)
    lane.on_answer = lambda turn, _: counters.record_lane(turn.waited_seconds, turn.request.size)
    counters.engine_pid = lambda: engine.pid
    slabs = None if arena is None else SharedSlabs(arena, fleet.processes)
    for process in fleet.processes:
        _connect(process, slabs, lane)
    state.bodies = Bodies(PLACES)
    state.products = Products(lane, engine, settings, counters, traces=state.traces)
    state.infer_statistics = InferStatistics()
    state.news = JobNews()
    connections = state.descriptors.connections
    state.streams = Shares("streams of events", max(1, connections // 4))
    state.waits = Shares("calls that wait for jobs", max(1, connections // 2))
    state.dispatcher = Dispatcher(
        state.jobs, store, engine, lane=lane, products=state.products, kept=state.kept,
        news=state.news, settings=settings, metrics=counters, traces=state.traces,
    )  # fmt: skip
    if cluster is not None:
        cluster.on_change = state.dispatcher.look_again
    housekeeping = Housekeeping(database, store, state.jobs, state.writes, settings)
    return _Parts(arena, residents, writer, housekeeping)


@contextmanager
def _hand_out_leases(
    settings: Settings, leases: Leases, descriptors: Descriptors
) -> Iterator[None]:
    """Where there is a Unix socket, hands their leases to callers until the block ends."""
    if settings.unix_socket is None:
        yield
        return
    path = find_lease_socket(settings.unix_socket)
    with claim_socket(path, kind=SOCK_SEQPACKET) as listener:
        lease_socket = LeaseSocket(listener, leases, descriptors)
        try:
            yield
        finally:
            lease_socket.close()


def _make_arena(settings: Settings) -> Arena | None:
    """The arena, still without a slab; None if it is switched off."""
    limit_bytes = default_limit() if settings.arena_bytes is None else int(settings.arena_bytes)
    if limit_bytes == 0:
        return None
    return Arena(limit_bytes=limit_bytes)


def _connect(process: Supervisor, slabs: SharedSlabs | None, lane: Lane) -> None:
    """Have a process that becomes ready get its memory first, and then work."""

    def greet() -> None:
        if slabs is not None:
            slabs.share_all(process)
        lane.advance()

    def forget() -> None:
        process.forget()
        if slabs is not None:
            slabs.forget(process)

    process.on_ready, process.on_gone = greet, forget
