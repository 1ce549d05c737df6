"""Devices: what computes here, and what can be planned for."""

from fastapi import APIRouter

from wavetrim.scheduler.profile.presets import PRESETS
from wavetrim.service.api.calls import Call, CallRoute
from wavetrim.service.api.machine.device_schemas import (
    ArenaView,
    DevicesView,
    DeviceView,
    DiskView,
    LaneView,
    NetworkView,
    NodeView,
    PresetView,
    ProfileView,
    ResidentsView,
)
from wavetrim.service.api.openapi import list_refusals
from wavetrim.service.engine.cluster import ClusterNode
from wavetrim.service.settings import Settings
from wavetrim.service.storage.disk.disk_space import RESERVE_BYTES, measure_disk

router = APIRouter(prefix="/v1/devices", tags=["plan"], route_class=CallRoute)


@router.get("", responses=list_refusals())
def list_devices(call: Call) -> DevicesView:
    """List the GPUs of this machine, its memory and disk, nodes, and presets."""
    engine, engines, arena = call.parts.engine, call.parts.engines, call.parts.arena
    return DevicesView(
        devices=[DeviceView.model_validate(info) for info in engine.devices],
        no_gpu_reason=engine.no_gpu_reason,
        cpu_threads=engine.cpu_threads,
        profile=ProfileView.model_validate(engine.profiles.find()),
        arena=ArenaView.model_validate(arena.describe()) if arena.limit_bytes else None,
        disk=_show_disk(call.parts.settings),
        lanes=[LaneView.model_validate(state) for state in engines.describe()],
        longest_wait_seconds=engines.longest_wait_seconds,
        residents=[ResidentsView.model_validate(one) for one in engine.residents],
        nodes=[_show_node(node) for node in call.parts.fleet.nodes],
        presets=[PresetView.model_validate(gpu) for gpu in PRESETS],
    )


def _show_disk(settings: Settings) -> DiskView | None:
    try:
        measured = measure_disk(settings.matrix_dir, RESERVE_BYTES)
    except OSError:
        return None
    return DiskView(**measured, limit_bytes=int(settings.max_storage_bytes))


def _show_node(node: ClusterNode) -> NodeView:
    return NodeView(
        id=node.id,
        host=node.host,
        devices=[DeviceView.model_validate(info) for info in node.devices],
        cpu_threads=node.cpu_threads,
        memory_bytes=node.memory_bytes,
        profile=ProfileView.model_validate(node.profile),
        network=NetworkView.model_validate(node.network),
        resident=sorted(node.resident),
        factor=node.factor,
    )
