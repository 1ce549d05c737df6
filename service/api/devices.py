"""Devices: what computes here, and what can be planned for."""

from dataclasses import asdict

from fastapi import APIRouter

from wavetrim.scheduler.profile.machine import GpuModel, MachineProfile
from wavetrim.scheduler.profile.store import list_presets
from wavetrim.service.api.openapi import list_refusals
from wavetrim.service.api.parts import ArenaPart, EnginePart
from wavetrim.service.api.plan_schemas import (
    ArenaView,
    DevicesView,
    DeviceView,
    PresetView,
    ProfileView,
)

router = APIRouter(prefix="/v1/devices", tags=["plan"])


@router.get("", responses=list_refusals())
def list_devices(engine: EnginePart, arena: ArenaPart) -> DevicesView:
    """List the GPUs of this machine, where its figures come from, and the presets."""
    return DevicesView(
        devices=[DeviceView.model_validate(asdict(info)) for info in engine.devices],
        cpu_threads=engine.cpu_threads,
        profile=_show_profile(engine.profiles.find()),
        arena=None if arena is None else ArenaView.model_validate(asdict(arena.describe())),
        presets=[_show_preset(gpu) for gpu in list_presets()],
    )


def _show_profile(profile: MachineProfile) -> ProfileView:
    return ProfileView(
        device=profile.device, source=profile.source, measured_at=profile.measured_at
    )


def _show_preset(gpu: GpuModel) -> PresetView:
    return PresetView(
        name=gpu.name,
        sm_count=gpu.sm_count,
        compute_capability=gpu.compute_capability,
        memory_bytes=gpu.memory_bytes,
        source=gpu.source,
    )
