"""Metrics for Prometheus: counts and seconds, no names, ids or contents. Open by default.

`telemetry/metrics` counts what happens; the gauges here are read from the service's parts.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST
from prometheus_client.core import GaugeMetricFamily as Gauge

from wavetrim.service.api.calls import Call, CallRoute
from wavetrim.service.api.problems import DATABASE_AWAY
from wavetrim.service.engine.engine import Engine
from wavetrim.service.jobs.job import JobState
from wavetrim.service.jobs.lanes.engine_queue import EngineQueue
from wavetrim.service.storage.disk.files import count_usable_bytes
from wavetrim.service.storage.folder.lost_files import count_lost_files

if TYPE_CHECKING:
    from wavetrim.service.parts import Parts

logger = logging.getLogger(__name__)

_GPU_READINGS: Final = {
    "memory_used_bytes": "Device memory in use, by whomever.",
    "clock_mhz": "Clock of the multiprocessors.",
    "memory_clock_mhz": "Clock of the memory.",
    "temperature_celsius": "Temperature of the chip.",
    "power_watts": "Power that it takes.",
}

_RESIDENTS: Final = ("limit_bytes", "size_bytes", "operands", "uses", "fetches", "evictions")
"""What the engine reports of the matrices that stay on a GPU."""

router = APIRouter(prefix="/metrics", tags=["health"], route_class=CallRoute)


@router.get(
    "",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"example": 'wavetrim_jobs{state="queued"} 0.0'}}}},
)
def get_metrics(call: Call) -> Response:
    """Show all counters in Prometheus's text format, whether or not the database answers."""
    parts = call.parts
    gauges = [*_show_stored(parts), *_show_memory(parts), *_show_queue(parts.engines)]
    gauges += [*_show_engine(parts.engine), *_show_gpus(parts.engine)]
    return Response(parts.metrics.render(gauges), media_type=CONTENT_TYPE_LATEST)


def _spread(name: str, words: str, labels: str, values: Mapping[Any, float]) -> Gauge:
    """A gauge with a value for each label, or for each tuple of several; spaces separate names."""
    gauge = Gauge(name, words, labels=labels.split())
    for label, value in values.items():
        gauge.add_metric([label] if isinstance(label, str) else label, value)
    return gauge


def _show_stored(parts: "Parts") -> Iterator[Gauge]:
    """What only database and disk know; if one is away, its old numbers stay."""
    known = parts.metrics.known
    try:
        counts, stored_bytes = parts.jobs.count_by_state(), parts.matrices.stored.count_on_disk()
    except DATABASE_AWAY as error:
        logger.warning("the database does not answer: %s", type(error).__name__)
        is_up = False
    else:
        is_up = True
        known |= {state: counts.get(state, 0) for state in JobState}
        known["stored"] = stored_bytes
    with suppress(OSError):  # the folder is away; readiness says so
        known["free"] = count_usable_bytes(parts.settings.matrix_dir)
    by_state = {state.value: known[state] for state in JobState if state in known}
    yield _spread("wavetrim_jobs", "Jobs in the database.", "state", by_state)
    yield Gauge("wavetrim_queue_depth", "Jobs that wait.", known.get(JobState.QUEUED, 0))
    yield Gauge("wavetrim_stored_bytes", "Bytes of all stored matrices.", known.get("stored", 0))
    yield Gauge("wavetrim_database_up", "1 while the database answers.", is_up)
    lost = "Matrix files that the database does not know."
    yield Gauge("wavetrim_lost_files", lost, count_lost_files(parts.matrices.folder))
    free = "What the matrices' file system has left beside the reserve."
    yield Gauge("wavetrim_free_bytes", free, known.get("free", 0))


def _show_memory(parts: "Parts") -> Iterator[Gauge]:
    arena, settings = parts.arena.describe() if parts.arena.limit_bytes else {}, parts.settings
    yield _spread("wavetrim_arena", "The arena: sizes in bytes, and counts.", "what", arena)
    held = "Bytes that callers' requests and leases hold in memory."
    yield Gauge("wavetrim_bytes_in_flight", held, parts.in_flight.total)
    limits = {"stored_bytes": settings.max_storage_bytes, "queued_jobs": settings.max_queued_jobs}
    yield _spread("wavetrim_limit", "What the settings allow.", "what", limits)
    yield Gauge(
        "wavetrim_nodes", "Nodes of the cluster that take products.", len(parts.engines.nodes)
    )


def _show_queue(engines: EngineQueue) -> Iterator[Gauge]:
    products = {"waiting": engines.waiting, "running": engines.running}
    yield _spread("wavetrim_products", "Products in the lane to the engine.", "state", products)
    words = "For how long a device should work at what it has."
    busy = dict(engines.host.describe())
    yield _spread("wavetrim_device_busy_seconds", words, "device", busy)
    words = "The longest time until the devices of a product that waits are free together."
    yield Gauge("wavetrim_longest_wait_seconds", words, engines.longest_wait_seconds)


def _show_engine(engine: Engine) -> Iterator[Gauge]:
    yield Gauge("wavetrim_engine_ready", "1 while the engine takes products.", engine.ready)
    lacks_gpu = engine.degraded is not None
    yield Gauge("wavetrim_degraded", "1 while the engine lacks a GPU it should have.", lacks_gpu)
    factors = engine.profiles.find().corrections.list_all()
    words = "Median of measured over predicted seconds, by device, memory and bottleneck."
    reported = {kind: factor.reported for kind, factor in factors.items()}
    yield _spread("wavetrim_correction_factor", words, "runs_like", reported)
    words = "Runs that a correction factor is from: at most the newest 15 of the kind."
    runs = {kind: factor.runs for kind, factor in factors.items()}
    yield _spread("wavetrim_correction_runs", words, "runs_like", runs)


def _show_gpus(engine: Engine) -> Iterator[Gauge]:
    gpus = {(str(info.index), info.name): info.memory_bytes for info in engine.devices}
    yield _spread("wavetrim_gpu_memory_bytes", "Device memory.", "gpu name", gpus)
    for field, words in _GPU_READINGS.items():
        read = {str(one["index"]): one[field] for one in engine.readings if field in one}
        yield _spread(f"wavetrim_gpu_{field}", words, "gpu", read)
    words = "Stored matrices that stay on a GPU: sizes in bytes, and counts of its engine's life."
    stay = engine.residents
    told = {(str(one["index"]), what): one[what] for one in stay for what in _RESIDENTS}
    yield _spread("wavetrim_residents", words, "gpu what", told)
