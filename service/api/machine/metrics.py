"""Metrics for Prometheus: counts and seconds, no names, ids or contents. Open by default."""

import logging

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST

from wavetrim.service.api.calls import Call, CallRoute
from wavetrim.service.api.problem_kinds import DATABASE_AWAY
from wavetrim.service.jobs.job import JobState
from wavetrim.service.jobs.table.store import JobStore
from wavetrim.service.settings import Settings
from wavetrim.service.storage.disk.files import count_usable_bytes
from wavetrim.service.storage.folder.lost_files import count_lost_files
from wavetrim.service.storage.matrices.matrices import MatrixStore
from wavetrim.service.telemetry.gauges import Gauges

logger = logging.getLogger(__name__)

router = APIRouter(prefix="/metrics", tags=["health"], route_class=CallRoute)


@router.get(
    "",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"example": 'wavetrim_jobs{state="queued"} 0.0'}}}},
)
def get_metrics(call: Call) -> Response:
    """Show all counters in Prometheus's text format, whether or not the database answers."""
    parts = call.parts
    metrics, engines, engine, settings = parts.metrics, parts.engines, parts.engine, parts.settings
    gauges = metrics.gauges
    _count_rows(gauges, parts.jobs, parts.matrices)
    gauges.products.labels("waiting").set(engines.waiting)
    gauges.products.labels("running").set(engines.running)
    gauges.show_lanes(engines.describe(), engines.longest_wait_seconds)
    if parts.arena.limit_bytes:
        for name, value in parts.arena.describe().items():
            gauges.arena.labels(name).set(value)
    gauges.bytes_in_flight.set(parts.in_flight.total)
    gauges.limits.labels("stored_bytes").set(settings.max_storage_bytes)
    gauges.limits.labels("queued_jobs").set(settings.max_queued_jobs)
    gauges.nodes.set(len(parts.fleet.nodes))
    gauges.engine_ready.set(engine.ready)
    gauges.degraded.set(engine.degraded is not None)
    gauges.show_gpus(engine.devices, engine.readings)
    gauges.show_residents(engine.residents)
    gauges.show_corrections(engine.profiles.corrections.list_all())
    _look_at_disk(gauges, parts.matrices, settings)
    return Response(metrics.render(), media_type=CONTENT_TYPE_LATEST)


def _count_rows(gauges: Gauges, jobs: JobStore, matrices: MatrixStore) -> None:
    """Set what only the database knows; if it is away, the old numbers stay."""
    try:
        counts = jobs.count_by_state()
        gauges.stored_bytes.set(matrices.stored.count_on_disk())
    except DATABASE_AWAY as error:
        logger.warning("the database does not answer: %s", type(error).__name__)
        gauges.database_up.set(0)
        return
    for state in JobState:
        gauges.jobs_by_state.labels(state.value).set(counts.get(state, 0))
    gauges.queue_depth.set(counts.get(JobState.QUEUED, 0))
    gauges.database_up.set(1)


def _look_at_disk(gauges: Gauges, matrices: MatrixStore, settings: Settings) -> None:
    gauges.lost_files.set(count_lost_files(matrices.folder))
    try:
        free_bytes = count_usable_bytes(settings.matrix_dir)
    except OSError:
        return  # the folder is away; readiness says so
    gauges.free_bytes.set(free_bytes)
