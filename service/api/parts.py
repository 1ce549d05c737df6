"""FastAPI dependencies that give a route the parts of the service, from the application's state."""

import asyncio
from typing import Annotated, Any

import sqlalchemy
from fastapi import Depends, Request

from wavetrim.service.api.admission.auth import find_tenant
from wavetrim.service.api.v2.statistics import InferStatistics
from wavetrim.service.engine.engine import Engine
from wavetrim.service.engine.fleet import Fleet
from wavetrim.service.jobs.dispatch import Dispatcher
from wavetrim.service.jobs.lanes.lane import Lane
from wavetrim.service.jobs.table.store import JobStore
from wavetrim.service.settings import Settings
from wavetrim.service.storage.arena.arena import Arena
from wavetrim.service.storage.database.write_record import WriteRecord
from wavetrim.service.storage.matrices.matrices import MatrixStore
from wavetrim.service.storage.memory.leases import Leases
from wavetrim.service.telemetry.metrics import Metrics
from wavetrim.service.tenants.bytes_in_flight import BytesInFlight
from wavetrim.service.tenants.shares import Shares
from wavetrim.service.tenants.tenant import Tenant


def _find_part(name: str) -> Any:
    """A dependency on a part; a coroutine, since FastAPI calls plain functions in a thread."""

    async def find(request: Request) -> Any:
        return getattr(request.app.state, name)

    return Depends(find)


async def _find_tenant(request: Request) -> Tenant:
    return find_tenant(request.scope)


TenantPart = Annotated[Tenant, Depends(_find_tenant)]
"""The tenant that calls."""

SettingsPart = Annotated[Settings, _find_part("settings")]
DatabasePart = Annotated[sqlalchemy.Engine, _find_part("database")]
MatricesPart = Annotated[MatrixStore, _find_part("matrices")]
JobsPart = Annotated[JobStore, _find_part("jobs")]
FleetPart = Annotated[Fleet, _find_part("fleet")]
EnginePart = Annotated[Engine, _find_part("engine")]
DispatcherPart = Annotated[Dispatcher, _find_part("dispatcher")]
MetricsPart = Annotated[Metrics, _find_part("metrics")]
ArenaPart = Annotated[Arena | None, _find_part("arena")]
InFlightPart = Annotated[BytesInFlight, _find_part("in_flight")]
LeasesPart = Annotated[Leases, _find_part("leases")]
LanePart = Annotated[Lane, _find_part("lane")]
InferStatisticsPart = Annotated[InferStatistics, _find_part("infer_statistics")]
ThinkingPart = Annotated[asyncio.Lock, _find_part("thinking")]
WaitsPart = Annotated[Shares, _find_part("waits")]
WritesPart = Annotated[WriteRecord, _find_part("writes")]
