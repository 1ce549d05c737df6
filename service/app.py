"""The application: its parts, started in order and stopped in the reverse."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from socket import SOCK_SEQPACKET
from typing import TYPE_CHECKING, Any, Final

from fastapi import Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from sqlalchemy import Engine as Database
from starlette.exceptions import HTTPException

from wavetrim.scheduler.cluster.start import check_token
from wavetrim.scheduler.errors import FieldError
from wavetrim.service.api.admission.auth import bearer
from wavetrim.service.api.admission.body_limit import BodyLimit
from wavetrim.service.api.admission.body_route import BodyRoutes
from wavetrim.service.api.admission.host_check import HostCheck
from wavetrim.service.api.admission.query_check import refuse_unknown
from wavetrim.service.api.admission.request_log import RequestLog
from wavetrim.service.api.jobs import events, jobs
from wavetrim.service.api.machine import devices, health, me, metrics, profile
from wavetrim.service.api.matrices import matrices
from wavetrim.service.api.openapi import (
    complete_document,
    describe_refusal,
    list_refusals,
    name_operation,
)
from wavetrim.service.api.problems import (
    DATABASE_AWAY,
    answer_error,
    answer_http,
    answer_validation,
)
from wavetrim.service.api.products import leases, matmul, plan
from wavetrim.service.api.products.lease_socket import LeaseSocket, find_lease_socket
from wavetrim.service.api.products.leased_schemas import LeasedAnswer, LeasedProduct
from wavetrim.service.api.v2 import infer, model, shared_memory
from wavetrim.service.api.v2.errors import ErrorMember
from wavetrim.service.api.v2.inference import Inference
from wavetrim.service.api.v2.model_schemas import RegionRequest
from wavetrim.service.api.v2.schemas import InferAnswer, InferHead
from wavetrim.service.api.wire.bodies import Bodies
from wavetrim.service.descriptors import limit_connections
from wavetrim.service.engine.cluster import Cluster
from wavetrim.service.engine.engine import Engine
from wavetrim.service.engine.fleet import Fleet
from wavetrim.service.engine.slabs import SharedSlabs
from wavetrim.service.engine.supervisor import Supervisor
from wavetrim.service.errors import ServiceError, SettingRefused
from wavetrim.service.grpc.server import check_grpc, serve_grpc
from wavetrim.service.housekeeping import Housekeeping
from wavetrim.service.jobs.dispatch import Dispatcher
from wavetrim.service.jobs.lane import Lane
from wavetrim.service.jobs.news import JobNews
from wavetrim.service.jobs.products import Products
from wavetrim.service.jobs.store import JobStore
from wavetrim.service.page import site
from wavetrim.service.settings import Settings
from wavetrim.service.storage.arena.arena import Arena
from wavetrim.service.storage.arena.memory_limit import default_limit
from wavetrim.service.storage.database.patience import open_patiently
from wavetrim.service.storage.database.write_record import WriteRecord, watch_writes
from wavetrim.service.storage.disk.commit_gate import CommitGate, watch_commits
from wavetrim.service.storage.disk.disk_writer import DiskWriter
from wavetrim.service.storage.folder.data_folder import claim_folder
from wavetrim.service.storage.folder.identity import pair
from wavetrim.service.storage.matrices.kept import KeptMatrices
from wavetrim.service.storage.matrices.matrices import MatrixStore
from wavetrim.service.storage.matrices.residents import Residents
from wavetrim.service.storage.memory.leases import Leases
from wavetrim.service.storage.memory.named_regions import NamedRegions
from wavetrim.service.storage.memory.room import Rooms
from wavetrim.service.telemetry.metrics import Metrics
from wavetrim.service.tenants.bytes_in_flight import BytesInFlight
from wavetrim.service.tenants.key_ring import KeyRing
from wavetrim.service.tenants.tokens import make_tokens
from wavetrim.service.threads import run_to_end
from wavetrim.service.unix_socket import claim_socket
from wavetrim.service.version import find_version

if TYPE_CHECKING:
    from wavetrim.service.telemetry.traces import Traces

logger = logging.getLogger(__name__)

_DESCRIPTION = """Multiplies matrices on the GPU and the CPU at once, split where the waves end.

Store two matrices, post a job, fetch the product; or do it in one call with `/v1/matmul`.
`/v1/plan` says who would compute which rows, and why. Refusals are problem documents (RFC 9457).
"""


def create_app(settings: Settings | None = None) -> FastAPI:
    """Makes the application; nothing is started or written before the server starts it.

    Args:
        settings: The settings; without them, the environment's.

    Raises:
        SettingRefused: It would be reachable from other machines without an API key, or tokens
            cannot be read as the settings say.
        pydantic.ValidationError: The environment holds a setting that cannot be taken.
    """
    settings = settings or Settings()
    check_exposure(settings)
    check_cluster(settings)
    check_grpc(settings)
    app = FastAPI(
        title="wavetrim",
        version=find_version(),
        description=_DESCRIPTION,
        lifespan=_run_parts,
        openapi_url="/openapi.json" if settings.docs == "on" else None,
        docs_url=None,  # the page of `site` has its files here
        redoc_url=None,
        # A redirect to the path without its slash would name the host that the request named.
        redirect_slashes=False,
        generate_unique_id_function=name_operation,
    )
    app.state.settings = settings
    app.state.metrics = Metrics()
    app.state.keys = KeyRing()
    app.state.tokens = make_tokens(settings)
    app.state.grpc_address = None
    app.state.given_up = asyncio.Event()  # set when a start that waits is not to go on
    body_routes = (*matmul.routes, *infer.routes, *matrices.routes, *jobs.routes, *events.routes)
    app.add_middleware(BodyLimit)
    app.add_middleware(BodyRoutes, routes=body_routes)
    app.add_middleware(HostCheck, settings=settings)
    app.state.traces = traces = open_traces(settings)
    if traces is None:
        app.add_middleware(RequestLog, metrics=app.state.metrics)
    else:
        log = partial(RequestLog, find_parent=traces.find_parent)
        app.add_middleware(log, metrics=app.state.metrics)
        traces.watch_requests(app)
    app.add_middleware(ErrorMember)
    for error in (ServiceError, FieldError, *DATABASE_AWAY):
        app.add_exception_handler(error, answer_error)
    app.add_exception_handler(RequestValidationError, answer_validation)
    app.add_exception_handler(HTTPException, answer_http)
    app.router.routes += body_routes
    for module in (
        *(matrices, events, jobs, plan, profile, devices, leases, matmul, me),
        *(model, infer, shared_memory),
    ):
        app.include_router(module.router, dependencies=[Depends(bearer), Depends(refuse_unknown)])
    foreign: dict[int | str, dict[str, Any]] = {s: describe_refusal(s) for s in (400, 403)}
    app.include_router(health.router, responses=foreign)
    if settings.metrics == "open":
        app.include_router(metrics.router, responses=foreign)
    elif settings.metrics == "key":
        app.include_router(
            metrics.router, dependencies=[Depends(bearer)], responses=list_refusals()
        )
    app.include_router(site.make_router(docs=settings.docs == "on"))
    app.router.routes += site.list_files()
    _complete_document(app)
    return app


def check_exposure(settings: Settings) -> None:
    """Makes sure that nobody listens on a network without an API key or tokens.

    Raises:
        SettingRefused: The host is not loopback, and there is neither.
    """
    if not settings.on_loopback and not settings.names_callers:
        limit = "a loopback address as long as WAVETRIM_API_KEY and _JWT_ISSUER are not set"
        raise SettingRefused("host", settings.host, limit)


def check_cluster(settings: Settings) -> None:
    """Makes sure that a cluster can be spoken to where one is named.

    Raises:
        SettingRefused: Ray is not installed.
        FieldError: The cluster's token is not known here.
    """
    if settings.ray_address is None:
        return
    if find_spec("ray") is None:
        limit = "left out, as Ray is not installed (pip install 'wavetrim[ray]')"
        raise SettingRefused("ray_address", settings.ray_address, limit)
    check_token(os.environ)


def open_traces(settings: Settings) -> "Traces | None":
    """What makes spans; None where nobody asks for them.

    Raises:
        SettingRefused: OpenTelemetry is not installed.
    """
    if settings.traces == "off":
        return None
    try:
        from wavetrim.service.telemetry.traces import Traces
    except ModuleNotFoundError as error:
        limit = "off, as OpenTelemetry is not installed (pip install 'wavetrim[otel]')"
        raise SettingRefused("traces", settings.traces, limit) from error
    return Traces()


@asynccontextmanager
async def _run_parts(app: FastAPI) -> AsyncIterator[None]:
    """Starts database, stores, engine and dispatcher; lets the running job end when it stops."""
    settings: Settings = app.state.settings
    with claim_folder(settings.data_dir):
        database = await open_patiently(
            settings.database, settings.database_wait_seconds, app.state.given_up
        )
        await run_to_end(pair, database, settings.data_dir, settings.matrix_dir)
        parts = _make_parts(app, database)
        state = app.state
        await run_to_end(state.keys.read, database)
        if state.tokens is not None:
            await state.tokens.keys.start()
        state.keys.start(database)
        await run_to_end(state.matrices.sweep)
        for process in state.fleet.processes:
            await process.start()
        # The arena's first pages take a second; who asks for memory before waits for them.
        making = asyncio.create_task(parts.start_arena(), name="arena-start")
        try:
            await state.dispatcher.start()
            parts.housekeeping.start()
            with _hand_out_leases(settings, state.leases):
                async with serve_grpc(state):
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
            state.inference.regions.unregister()
            if state.arena is not None:
                await state.arena.close()
            database.dispose()
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
    """Makes what a service is made of, and lets the routes find it."""
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
        reserve_bytes=settings.reserve_bytes,
        writes=state.writes,
    )
    state.jobs = JobStore(database)
    state.engine = engine = Engine(settings, on_restart=counters.engine_restarts.inc)
    state.arena = arena = _make_arena(settings)
    state.in_flight = BytesInFlight()
    residents = Residents()
    state.kept = KeptMatrices(store, arena, residents, writer)
    reserve_bytes = int(settings.reserve_bytes)
    state.rooms = Rooms(arena, settings.matrix_dir, reserve_bytes=reserve_bytes)
    state.leases = Leases(arena, state.in_flight)
    cluster = None if settings.ray_address is None else Cluster(settings)
    state.fleet = fleet = Fleet(engine, cluster)
    state.lane = lane = Lane(fleet)
    lane.on_answer = lambda turn, _: counters.record_lane(turn.waited_seconds, turn.size)
    counters.engine_pid = lambda: engine.pid
    slabs = None if arena is None else SharedSlabs(arena, fleet.processes)
    for process in fleet.processes:
        _connect(process, slabs, lane)
    state.bodies = Bodies(settings.max_bodies)
    state.products = Products(lane, engine, settings, counters, traces=state.traces)
    state.inference = Inference(
        state.products, engine, state.rooms, state.in_flight,
        NamedRegions(settings.v2_shared_memory), limit_bytes=int(settings.max_matrix_bytes),
    )  # fmt: skip
    state.news = JobNews(max(1, limit_connections(settings.max_connections) // 4))
    state.dispatcher = Dispatcher(
        state.jobs, store, engine, lane=lane, products=state.products, kept=state.kept,
        news=state.news, settings=settings, metrics=counters, traces=state.traces,
    )  # fmt: skip
    if cluster is not None:
        cluster.on_change = state.dispatcher.look_again
    housekeeping = Housekeeping(database, store, state.jobs, state.writes, settings)
    return _Parts(arena, residents, writer, housekeeping)


@contextmanager
def _hand_out_leases(settings: Settings, leases: Leases) -> Iterator[None]:
    """Listens for callers who fetch their leases, where there is a Unix socket, until the end."""
    if settings.unix_socket is None:
        yield
        return
    path = find_lease_socket(settings.unix_socket)
    with claim_socket(path, kind=SOCK_SEQPACKET) as listener:
        lease_socket = LeaseSocket(listener, leases)
        try:
            yield
        finally:
            lease_socket.close()


def _make_arena(settings: Settings) -> Arena | None:
    """The arena, without a slab; None where it is switched off."""
    limit_bytes = default_limit() if settings.arena_bytes is None else int(settings.arena_bytes)
    if limit_bytes == 0:
        return None
    slab_bytes = settings.arena_slab_bytes
    return Arena(
        limit_bytes=limit_bytes,
        slab_bytes=None if slab_bytes is None else int(slab_bytes),
        poison=settings.arena_poison,
        idle_seconds=settings.arena_idle_seconds,
    )


def _connect(process: Supervisor, slabs: SharedSlabs | None, lane: Lane) -> None:
    """Give a process that has become ready its memory, and then work."""

    def greet() -> None:
        if slabs is not None:
            slabs.share_all(process)
        lane.advance()

    def forget() -> None:
        process.forget()
        if slabs is not None:
            slabs.forget(process)

    process.on_ready, process.on_gone = greet, forget


_NAMED: Final = (LeasedProduct, LeasedAnswer, InferHead, InferAnswer, RegionRequest)
"""Models that the OpenAPI document has since operations refer to them."""


def _complete_document(app: FastAPI) -> None:
    """Let the OpenAPI document say what FastAPI cannot see."""
    make_document = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = complete_document(make_document(), _NAMED)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
