"""The application: its parts, started in order and stopped in the reverse."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from socket import SOCK_SEQPACKET
from typing import Any

from fastapi import Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException

from wavetrim.scheduler.errors import FieldError
from wavetrim.service.api import devices, health, jobs, leases, matmul, matrices, metrics, plan
from wavetrim.service.api.auth import require_access
from wavetrim.service.api.body_limit import BodyLimit
from wavetrim.service.api.openapi import use_problem_type
from wavetrim.service.api.problems import answer_error, answer_http, answer_validation
from wavetrim.service.api.request_log import RequestLog
from wavetrim.service.engine.slabs import SharedSlabs
from wavetrim.service.engine.supervisor import Engine
from wavetrim.service.errors import ServiceError, SettingRefused
from wavetrim.service.jobs.dispatch import Dispatcher
from wavetrim.service.jobs.lane import Lane
from wavetrim.service.jobs.products import Products
from wavetrim.service.jobs.store import JobStore
from wavetrim.service.lease_socket import BACKLOG, LeaseSocket, find_lease_socket
from wavetrim.service.metrics import Metrics
from wavetrim.service.settings import Settings
from wavetrim.service.storage.arena.arena import Arena
from wavetrim.service.storage.arena.memory_limit import default_limit
from wavetrim.service.storage.data_folder import claim_folder
from wavetrim.service.storage.database import open_database
from wavetrim.service.storage.leases import Leases
from wavetrim.service.storage.matrices import MatrixStore
from wavetrim.service.storage.room import Rooms
from wavetrim.service.threads import run_to_end
from wavetrim.service.unix_socket import claim_socket
from wavetrim.service.version import find_version

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
        SettingRefused: It would be reachable from other machines without an API key.
        pydantic.ValidationError: The environment holds a setting that cannot be taken.
    """
    settings = settings or Settings()
    check_exposure(settings)
    app = FastAPI(
        title="wavetrim",
        version=find_version(),
        description=_DESCRIPTION,
        lifespan=_run_parts,
        redoc_url=None,
    )
    app.state.settings = settings
    app.state.metrics = Metrics()
    app.add_middleware(BodyLimit)
    app.add_middleware(RequestLog, metrics=app.state.metrics)
    for error in (ServiceError, FieldError):
        app.add_exception_handler(error, answer_error)
    app.add_exception_handler(RequestValidationError, answer_validation)
    app.add_exception_handler(HTTPException, answer_http)
    app.router.routes.append(matmul.route)
    for module in (matrices, jobs, plan, devices, leases):
        app.include_router(module.router, dependencies=[Depends(require_access)])
    for module in (health, metrics):
        app.include_router(module.router)
    _describe_routes(app)
    return app


def check_exposure(settings: Settings) -> None:
    """Makes sure that nobody listens on a network without an API key.

    Raises:
        SettingRefused: The host is not loopback, and there is no key.
    """
    if not settings.on_loopback and settings.api_key is None:
        limit = "a loopback address as long as WAVETRIM_API_KEY is not set"
        raise SettingRefused("host", settings.host, limit)


@asynccontextmanager
async def _run_parts(app: FastAPI) -> AsyncIterator[None]:
    """Starts database, stores, engine and dispatcher; lets the running job end when it stops."""
    settings: Settings = app.state.settings
    counters: Metrics = app.state.metrics
    with claim_folder(settings.data_dir):
        database = await run_to_end(open_database, settings.database)
        store = MatrixStore(
            database,
            settings.matrix_dir,
            max_matrix_bytes=settings.max_matrix_bytes,
            max_storage_bytes=settings.max_storage_bytes,
        )
        await run_to_end(store.sweep)
        queue = JobStore(database)
        engine = Engine(settings, on_restart=counters.engine_restarts.inc)
        arena = _make_arena(settings)
        slabs = None if arena is None else SharedSlabs(arena, engine)
        lane = Lane(engine)
        engine.on_ready = lambda: _greet(slabs, lane)
        if slabs is not None:
            engine.on_gone = slabs.forget
        products = Products(lane, engine, settings, counters)
        dispatcher = Dispatcher(
            queue, store, engine, settings=settings, metrics=counters, lane=lane, products=products
        )
        app.state.database, app.state.matrices, app.state.jobs = database, store, queue
        app.state.engine, app.state.dispatcher = engine, dispatcher
        app.state.arena, app.state.rooms = arena, Rooms(arena, settings.matrix_dir)
        app.state.products, app.state.lane = products, lane
        app.state.leases = Leases(arena)
        await engine.start()
        try:
            if arena is not None:
                # Its first pages take a second; who asks for memory before waits for them.
                making = asyncio.create_task(arena.start(), name="arena-start")
            await dispatcher.start()
            with _hand_out_leases(settings, app.state.leases):
                yield
                if not dispatcher.draining:
                    await dispatcher.drain(settings.drain_seconds)
        finally:
            await dispatcher.stop()
            await engine.stop()
            if arena is not None:
                await making
                await arena.close()
            await run_to_end(store.close)
            database.dispose()


@contextmanager
def _hand_out_leases(settings: Settings, leases: Leases) -> Iterator[None]:
    """Listens for callers who fetch their leases, where there is a Unix socket, until the end."""
    if settings.unix_socket is None:
        yield
        return
    path = find_lease_socket(settings.unix_socket)
    with claim_socket(path, backlog=BACKLOG, kind=SOCK_SEQPACKET) as listener:
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
    return Arena(limit_bytes=limit_bytes, poison=settings.arena_poison)


def _greet(slabs: SharedSlabs | None, lane: Lane) -> None:
    """Give an engine that has become ready its memory, and then work."""
    if slabs is not None:
        slabs.share_all()
    lane.advance()


def _describe_routes(app: FastAPI) -> None:
    """Let the OpenAPI document have the routes that are plain ASGI, and problem documents."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(
                title=app.title,
                version=app.version,
                description=app.description,
                routes=[*app.routes, *matmul.described.routes],
            )
            app.openapi_schema = use_problem_type(document)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
