"""Metrics for Prometheus: counts and seconds, no names, ids or contents. Open by default."""

from dataclasses import asdict

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST

from wavetrim.service.api.parts import (
    ArenaPart,
    EnginePart,
    FleetPart,
    JobsPart,
    LanePart,
    MatricesPart,
    MetricsPart,
)
from wavetrim.service.jobs.job import JobState

router = APIRouter(prefix="/metrics", tags=["health"])


@router.get(
    "",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"example": 'wavetrim_jobs{state="queued"} 0.0'}}}},
)
def get_metrics(
    *,
    jobs: JobsPart,
    matrices: MatricesPart,
    metrics: MetricsPart,
    arena: ArenaPart,
    lane: LanePart,
    engine: EnginePart,
    fleet: FleetPart,
) -> Response:
    """Show all counters in Prometheus's text format."""
    counts = jobs.count_by_state()
    for state in JobState:
        metrics.jobs_by_state.labels(state.value).set(counts.get(state, 0))
    metrics.queue_depth.set(counts.get(JobState.QUEUED, 0))
    metrics.stored_bytes.set(matrices.count_stored_bytes())
    metrics.products.labels("waiting").set(lane.waiting)
    metrics.products.labels("running").set(lane.running)
    if arena is not None:
        for name, value in asdict(arena.describe()).items():
            metrics.arena.labels(name).set(value)
    metrics.nodes.set(len(fleet.nodes))
    metrics.lost_files.set(matrices.count_lost_files())
    for correction in engine.profiles.list_corrections():
        name = correction.run_class.device
        metrics.correction_factor.labels(name).set(correction.factor)
        metrics.correction_runs.labels(name).set(correction.runs)
    return Response(metrics.render(), media_type=CONTENT_TYPE_LATEST)
