"""The parts of a running service, as the routes ask for them."""

from typing import Annotated

import sqlalchemy
from fastapi import Depends, Request

from wavetrim.service.engine.supervisor import Engine
from wavetrim.service.jobs.dispatch import Dispatcher
from wavetrim.service.jobs.lane import Lane
from wavetrim.service.jobs.store import JobStore
from wavetrim.service.metrics import Metrics
from wavetrim.service.settings import Settings
from wavetrim.service.storage.arena.arena import Arena
from wavetrim.service.storage.kept import KeptMatrices
from wavetrim.service.storage.leases import Leases
from wavetrim.service.storage.matrices import MatrixStore
from wavetrim.service.storage.write_record import WriteRecord


def _find_settings(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


def _find_database(request: Request) -> sqlalchemy.Engine:
    database: sqlalchemy.Engine = request.app.state.database
    return database


def _find_matrices(request: Request) -> MatrixStore:
    matrices: MatrixStore = request.app.state.matrices
    return matrices


def _find_jobs(request: Request) -> JobStore:
    jobs: JobStore = request.app.state.jobs
    return jobs


def _find_engine(request: Request) -> Engine:
    engine: Engine = request.app.state.engine
    return engine


def _find_dispatcher(request: Request) -> Dispatcher:
    dispatcher: Dispatcher = request.app.state.dispatcher
    return dispatcher


def _find_arena(request: Request) -> Arena | None:
    arena: Arena | None = request.app.state.arena
    return arena


def _find_leases(request: Request) -> Leases:
    leases: Leases = request.app.state.leases
    return leases


def _find_lane(request: Request) -> Lane:
    lane: Lane = request.app.state.lane
    return lane


def _find_kept(request: Request) -> KeptMatrices:
    kept: KeptMatrices = request.app.state.kept
    return kept


def _find_metrics(request: Request) -> Metrics:
    metrics: Metrics = request.app.state.metrics
    return metrics


def _find_writes(request: Request) -> WriteRecord:
    writes: WriteRecord = request.app.state.writes
    return writes


SettingsPart = Annotated[Settings, Depends(_find_settings)]
DatabasePart = Annotated[sqlalchemy.Engine, Depends(_find_database)]
MatricesPart = Annotated[MatrixStore, Depends(_find_matrices)]
JobsPart = Annotated[JobStore, Depends(_find_jobs)]
EnginePart = Annotated[Engine, Depends(_find_engine)]
DispatcherPart = Annotated[Dispatcher, Depends(_find_dispatcher)]
MetricsPart = Annotated[Metrics, Depends(_find_metrics)]
ArenaPart = Annotated[Arena | None, Depends(_find_arena)]
LeasesPart = Annotated[Leases, Depends(_find_leases)]
LanePart = Annotated[Lane, Depends(_find_lane)]
WritesPart = Annotated[WriteRecord, Depends(_find_writes)]
KeptPart = Annotated[KeptMatrices, Depends(_find_kept)]
