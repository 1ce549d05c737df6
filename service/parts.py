"""The parts of a service: what there is before it starts, and what requests find then."""

import asyncio
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from sqlalchemy import Engine as Database

from wavetrim.service.api.v2.statistics import InferStatistics
from wavetrim.service.api.wire.bodies import PLACES, Bodies
from wavetrim.service.descriptors import Descriptors
from wavetrim.service.engine.cluster import Cluster
from wavetrim.service.engine.engine import Engine
from wavetrim.service.engine.fleet import Fleet
from wavetrim.service.engine.slabs import SharedSlabs
from wavetrim.service.engine.supervisor import Supervisor
from wavetrim.service.errors import SettingRefused
from wavetrim.service.housekeeping import Housekeeping
from wavetrim.service.jobs.dispatch import Dispatcher
from wavetrim.service.jobs.inline import InlineProducts
from wavetrim.service.jobs.lanes.engine_queue import EngineQueue
from wavetrim.service.jobs.live import LiveJobs
from wavetrim.service.jobs.news import JobNews
from wavetrim.service.jobs.plans import Plans
from wavetrim.service.jobs.products import Products
from wavetrim.service.jobs.table.store import JobStore
from wavetrim.service.settings import Settings
from wavetrim.service.storage.arena.arena import Arena
from wavetrim.service.storage.arena.memory_limit import default_limit
from wavetrim.service.storage.database.shared_commits import SharedCommits
from wavetrim.service.storage.database.write_record import WriteRecord, watch_writes
from wavetrim.service.storage.disk.disk_space import RESERVE_BYTES
from wavetrim.service.storage.matrices.matrices import MatrixStore
from wavetrim.service.storage.memory.leases import Leases
from wavetrim.service.telemetry.metrics import Metrics
from wavetrim.service.tenants.bytes_in_flight import BytesInFlight
from wavetrim.service.tenants.key_ring import KeyRing
from wavetrim.service.tenants.shares import Shares
from wavetrim.service.tenants.tokens import Tokens, make_tokens

if TYPE_CHECKING:
    from wavetrim.service.telemetry.traces import Traces


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What there is of a service before it starts: nothing of it is started or written yet.

    It is `app.state.parts` until all `Parts` are there.

    Attributes:
        settings: Its settings.
        metrics: Counts what it does.
        descriptors: Counts what callers hold open.
        traces: Makes spans; None if traces are off.
        keys: The callers' keys.
        tokens: Reads the tokens of an issuer; None if there is none.
        given_up: Set to end a start that waits for the database.
    """

    settings: Settings
    metrics: Metrics
    descriptors: Descriptors
    traces: "Traces | None"
    keys: KeyRing
    tokens: Tokens | None
    given_up: asyncio.Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts(Frame):
    """All parts of a service that has started, then `app.state.parts`.

    Attributes:
        database: Its database.
        writes: Whether its last writes have failed.
        commits: Commits of several requests at once.
        matrices: Files and rows of stored matrices.
        jobs: Rows of jobs.
        engine: This machine's engine.
        arena: Shared memory for matrices; with a limit of 0 it is switched off.
        in_flight: Counts the bytes of requests.
        leases: Memory that callers on this host share.
        fleet: The engine, and the nodes of the cluster.
        engines: Where products wait for devices.
        bodies: Limits how many long bodies are received at once.
        plans: Plans for this machine, by shape.
        products: Computes products in one call.
        infer_statistics: Counts requests of the Open Inference Protocol.
        news: Changes of jobs.
        streams: Shares of the streams of events.
        waits: Shares of the calls that wait for jobs.
        dispatcher: Brings jobs to the lane.
        thinking: Held by threads that compute in Python: one at a time.
        housekeeping: Removes what is too old.
    """

    database: Database
    writes: WriteRecord
    commits: SharedCommits
    matrices: MatrixStore
    jobs: JobStore
    engine: Engine
    arena: Arena
    in_flight: BytesInFlight
    leases: Leases
    fleet: Fleet
    engines: EngineQueue
    bodies: Bodies
    plans: Plans
    products: Products
    infer_statistics: InferStatistics
    news: JobNews
    streams: Shares
    waits: Shares
    dispatcher: Dispatcher
    thinking: asyncio.Lock
    housekeeping: Housekeeping


def make_frame(settings: Settings) -> Frame:
    """What there is of a service before it starts.

    Raises:
        SettingRefused: Something that the settings ask for is missing.
    """
    return Frame(
        settings=settings,
        metrics=Metrics(),
        descriptors=Descriptors(settings.max_connections),
        traces=_open_traces(settings),
        keys=KeyRing(),
        tokens=make_tokens(settings),
        given_up=asyncio.Event(),
    )


def _open_traces(settings: Settings) -> "Traces | None":
    if settings.traces == "off":
        return None
    try:
        from wavetrim.service.telemetry.traces import Traces
    except ModuleNotFoundError as error:
        limit = "off, as OpenTelemetry is not installed (pip install 'wavetrim[otel]')"
        raise SettingRefused("traces", settings.traces, limit) from error
    return Traces()


def make_parts(frame: Frame, database: Database) -> Parts:
    """All parts of a service; none of them is started yet."""
    settings, metrics, descriptors = frame.settings, frame.metrics, frame.descriptors
    writes, in_flight = WriteRecord(), BytesInFlight()
    watch_writes(database, writes)
    commits, arena = SharedCommits(database), _make_arena(settings)
    store = MatrixStore(
        database,
        settings.matrix_dir,
        max_matrix_bytes=settings.max_matrix_bytes,
        max_storage_bytes=settings.max_storage_bytes,
        reserve_bytes=RESERVE_BYTES,
        writes=writes,
        commits=commits,
        arena=arena,
    )
    jobs = JobStore(database, commits)
    engine = Engine(settings, on_restart=metrics.engine_restarts.inc)
    store.on_removed.append(engine.forget_matrix)
    cluster = None if settings.ray_address is None else Cluster(settings)
    fleet = Fleet(engine, cluster)
    plans = Plans(engine)
    engines = EngineQueue(fleet, plans, settings.job_timeout_seconds, metrics)
    metrics.engine_pid = lambda: engine.pid
    slabs = SharedSlabs(arena, fleet.processes)
    for process in fleet.processes:
        _connect(process, slabs, engines)
    inline = InlineProducts(plans, settings.kernel_cache_dir)
    products = Products(
        engines=engines, inline=inline, plans=plans, settings=settings, metrics=metrics,
        traces=frame.traces,
    )  # fmt: skip
    live = LiveJobs(
        jobs=jobs, matrices=store, engines=engines, inline=inline, plans=plans, settings=settings,
        metrics=metrics, traces=frame.traces,
    )  # fmt: skip
    dispatcher = Dispatcher(live, products)
    if cluster is not None:
        cluster.on_change = engines.advance
    return Parts(
        **{field.name: getattr(frame, field.name) for field in fields(Frame)},
        database=database, writes=writes, commits=commits, matrices=store, jobs=jobs,
        engine=engine, arena=arena,
        in_flight=in_flight, leases=Leases(arena, in_flight, descriptors),
        fleet=fleet, engines=engines, bodies=Bodies(PLACES), plans=plans,
        products=products,
        infer_statistics=InferStatistics(), news=live.news,
        streams=Shares("streams of events", max(1, descriptors.connections // 4)),
        waits=Shares("calls that wait for jobs", max(1, descriptors.connections // 2)),
        dispatcher=dispatcher, thinking=asyncio.Lock(),
        housekeeping=Housekeeping(database, store, jobs, writes, settings),
    )  # fmt: skip


def _make_arena(settings: Settings) -> Arena:
    """The arena, still without a slab; with a limit of 0 it is switched off."""
    limit_bytes = default_limit() if settings.arena_bytes is None else int(settings.arena_bytes)
    return Arena(limit_bytes=limit_bytes)


def _connect(process: Supervisor, slabs: SharedSlabs, engines: EngineQueue) -> None:
    """Have a process that becomes ready get its memory first, and then work."""

    def greet() -> None:
        slabs.share_all(process)
        engines.advance()

    def forget() -> None:
        process.forget()
        slabs.forget(process)

    process.on_ready, process.on_gone = greet, forget
